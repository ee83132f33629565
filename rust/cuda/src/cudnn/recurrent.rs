//! Recurrent networks by cuDNN, over sequences of one length or packed ones.
//!
//! All weights of a network lie in one buffer, in an order that cuDNN tells. What a pass keeps for its gradients is its reserve.
//! Calls have their workspaces of their own. The plain algorithm is asked for, which takes all lengths and dtypes. There is no
//! dropout between layers: it would need random numbers of cuDNN's.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{DType, Result};

use super::functions::{Functions, Object, SUCCESS, Status};
use super::{Description, Handle, MOST_PLANS, is_refusal, math_of, takes, types};
use crate::capture;
use crate::card::Card;
use crate::launch::enqueue;
use crate::memory::pointer;
use crate::workspace::Workspace;

/// `cudnnRNNAlgo_t`.
const STANDARD: c_int = 0;
/// `cudnnRNNInputMode_t`: the first layer has weights for its input.
const LINEAR_INPUT: c_int = 0;
/// `cudnnRNNBiasMode_t`.
const NO_BIAS: c_int = 0;
const DOUBLE_BIAS: c_int = 2;
/// `cudnnRNNDataLayout_t`.
const SEQ_MAJOR_UNPACKED: c_int = 0;
const SEQ_MAJOR_PACKED: c_int = 1;
/// `CUDNN_RNN_PADDED_IO_ENABLED`, which sequences that are not packed need.
const PADDED: u32 = 1;
/// `cudnnWgradMode_t`: cuDNN has no other one.
const ADD: c_int = 0;

/// `cudnnRNNMode_t`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Relu,
    Tanh,
    Lstm,
    Gru,
}

/// Layers of recurrent cells.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    pub kind: Kind,
    pub dtype: DType,
    /// Whether each layer has its two biases.
    pub biased: bool,
    pub bidirectional: bool,
    pub layers: c_int,
    /// The numbers of features: of the input, of the state, and of the output, which an LSTM may project.
    pub input: c_int,
    pub width: c_int,
    pub output: c_int,
}

impl Network {
    fn gates(&self) -> usize {
        match self.kind {
            Kind::Relu | Kind::Tanh => 1,
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    fn directions(&self) -> c_int {
        if self.bidirectional { 2 } else { 1 }
    }

    /// `None` if cuDNN refuses the network.
    fn describe(&self, library: &Functions, handle: &Handle, packed: bool) -> Option<Described> {
        let [dtype, sum] = types(self.dtype)?;
        let dropout = Description::new(library.create_dropout, library.destroy_dropout, |object| {
            // SAFETY: both objects are alive; without dropout there are no random numbers and no memory for them.
            unsafe { (library.set_dropout)(object, handle.object, 0.0, null_mut(), 0, 0) }
        })?;
        let network = Description::new(library.create_network, library.destroy_network, |object| {
            // SAFETY: both objects are alive, and the first was created as the description of a network.
            unsafe {
                (library.set_network)(
                    object,
                    STANDARD,
                    self.kind as c_int,
                    if self.biased { DOUBLE_BIAS } else { NO_BIAS },
                    c_int::from(self.bidirectional),
                    LINEAR_INPUT,
                    dtype,
                    sum,
                    math_of(self.dtype),
                    self.input,
                    self.width,
                    self.output,
                    self.layers,
                    dropout.object,
                    if packed { 0 } else { PADDED },
                )
            }
        })?;
        Some(Described { network, _dropout: dropout })
    }
}

/// The description of a network. It refers to that of its dropout.
struct Described {
    network: Description,
    _dropout: Description,
}

/// The lengths of sequences, the longest first, and whether the steps that shorter ones do not have are left out.
pub struct Sequences {
    pub lengths: Vec<c_int>,
    pub packed: bool,
}

impl Sequences {
    fn describe(&self, library: &Functions, dtype: c_int, features: c_int) -> Option<Description> {
        let layout = if self.packed { SEQ_MAJOR_PACKED } else { SEQ_MAJOR_UNPACKED };
        let (longest, count) = (*self.lengths.first()?, c_int::try_from(self.lengths.len()).ok()?);
        Description::new(library.create_sequences, library.destroy_sequences, |object| {
            let lengths = self.lengths.as_ptr();
            // SAFETY: the description was created as one, and the list has the length that is passed.
            unsafe { (library.set_sequences)(object, dtype, layout, longest, count, features, lengths, null_mut()) }
        })
    }
}

/// The buffer of a network's weights: its bytes, and where the parameters begin in it, in torch's order.
pub struct Buffer {
    pub bytes: usize,
    pub places: Vec<usize>,
}

/// The buffers that are known, by device and network; `None` for a network that cuDNN does not take.
type Known = BTreeMap<(u8, Network), Option<Arc<Buffer>>>;
static BUFFERS: ForkMutex<Known> = ForkMutex::new(Rank::Tables, BTreeMap::new());

fn remember(card: &Card, network: &Network, buffer: Option<Arc<Buffer>>) {
    let mut known = BUFFERS.lock();
    if known.len() >= MOST_PLANS {
        known.clear();
    }
    known.insert((card.index, network.clone()), buffer);
}

/// The buffer for a network's weights; `None` if cuDNN does not take the network.
pub fn buffer(card: &Card, stream: StreamId, network: &Network) -> Result<Option<Arc<Buffer>>> {
    let Some(library) = Functions::found().filter(|_| takes(network.dtype)) else { return Ok(None) };
    if let Some(known) = BUFFERS.lock().get(&(card.index, network.clone())) {
        return Ok(known.clone());
    }
    let _relaxed = capture::Relaxed::begin();
    let handle = Handle::take(library, card, stream)?;
    let mut found = None;
    if let Some(described) = network.describe(library, &handle, false) {
        let mut bytes = 0;
        // SAFETY: both objects are alive, and the pointer is that of a local variable.
        let status = unsafe { (library.size_of_weights)(handle.object, described.network.object, &raw mut bytes) };
        if status == SUCCESS {
            // cuDNN tells addresses, and only computes them: the memory stays as it is, but its size is checked.
            let weights = Workspace::new(card.index, stream, bytes)?;
            let places = places(library, &handle, network, &described, &weights);
            found = places.map(|places| Arc::new(Buffer { bytes, places }));
        }
    }
    remember(card, network, found.clone());
    Ok(found)
}

/// Where the parameters begin in a buffer. `None` unless the gates of a parameter lie one after the other, as in torch's.
fn places(
    library: &Functions,
    handle: &Handle,
    network: &Network,
    described: &Described,
    weights: &Workspace,
) -> Option<Vec<usize>> {
    let base = weights.pointer();
    let empty = || Description::new(library.create_tensor, library.destroy_tensor, |_| SUCCESS);
    let (matrix, bias) = (empty()?, empty()?);
    let find = |layer: c_int, part: usize| -> Option<[usize; 2]> {
        let mut at = [null_mut::<c_void>(); 2];
        let [of_matrix, of_bias] = &mut at;
        // SAFETY: all objects are alive, the buffer is as large as it is said to be, and the pointers are those of local variables.
        let status = unsafe {
            (library.place_of_weight)(
                handle.object,
                described.network.object,
                layer,
                weights.bytes(),
                base,
                part as i32,
                matrix.object,
                of_matrix,
                bias.object,
                of_bias,
            )
        };
        (status == SUCCESS).then(|| at.map(|one| one.addr().wrapping_sub(base.addr())))
    };
    let (gates, width, directions) = (network.gates(), network.width as usize, network.directions());
    let mut places = Vec::new();
    for layer in 0..network.layers * directions {
        let given = if layer < directions { network.input } else { network.output * directions };
        let mut biases = Vec::new();
        for (first, columns) in [(0, given as usize), (gates, network.output as usize)] {
            let [matrix, bias] = find(layer, first)?;
            for gate in 1..gates {
                let [own_matrix, own_bias] = find(layer, first + gate)?;
                let step = gate * width * network.dtype.size();
                let follows = own_matrix == matrix.wrapping_add(step * columns);
                if !follows || network.biased && own_bias != bias.wrapping_add(step) {
                    return None;
                }
            }
            places.push(matrix);
            biases.push(bias);
        }
        if network.biased {
            places.append(&mut biases);
        }
        if network.output != network.width {
            places.push(find(layer, 2 * gates)?[0]);
        }
    }
    Some(places)
}

/// The addresses of a pass: of operands and results, of the buffer of weights, and of the reserve, which may be 0. Those of cells
/// are 0 unless the network has some.
pub struct Forward {
    pub input: u64,
    pub output: u64,
    pub hx: u64,
    pub hy: u64,
    pub cx: u64,
    pub cy: u64,
    pub weights: u64,
    pub reserve: u64,
}

/// The addresses of a pass backward: of the operands and results of `Forward`, of gradients that arrive, of which those of states
/// may be 0, and of gradients that are computed. The weights' are added to what is there.
pub struct Backward {
    pub given: Forward,
    pub grad_output: u64,
    pub grad_hy: u64,
    pub grad_cy: u64,
    pub to_input: u64,
    pub to_hx: u64,
    pub to_cx: u64,
    pub to_weights: u64,
}

/// A network and its sequences, described to cuDNN.
pub struct Call {
    library: &'static Functions,
    handle: Handle,
    network: Network,
    described: Described,
    input: Description,
    output: Description,
    hidden: Description,
    cell: Option<Description>,
    weights: usize,
    training: bool,
    work: usize,
    /// The bytes of the reserve.
    pub reserve: usize,
}

impl Call {
    /// `None` if cuDNN does not take the sequences. `training` says that gradients may follow.
    pub fn new(
        card: &Card,
        stream: StreamId,
        network: &Network,
        sequences: &Sequences,
        training: bool,
    ) -> Result<Option<Call>> {
        let Some(buffer) = buffer(card, stream, network)? else { return Ok(None) };
        let Some(library) = Functions::found() else { return Ok(None) };
        let _relaxed = capture::Relaxed::begin();
        let handle = Handle::take(library, card, stream)?;
        let mut call = Call::described(library, handle, network, sequences, training);
        match &mut call {
            Some(call) => call.weights = buffer.bytes,
            None => remember(card, network, None),
        }
        Ok(call)
    }

    fn described(
        library: &'static Functions,
        handle: Handle,
        network: &Network,
        sequences: &Sequences,
        training: bool,
    ) -> Option<Call> {
        let [dtype, _] = types(network.dtype)?;
        let described = network.describe(library, &handle, sequences.packed)?;
        let input = sequences.describe(library, dtype, network.input)?;
        let output = sequences.describe(library, dtype, network.output * network.directions())?;
        let count = c_int::try_from(sequences.lengths.len()).ok()?;
        let state = |features: c_int| {
            Description::tensor(library, dtype, &[network.layers * network.directions(), count, features], false)
        };
        let hidden = state(network.output)?;
        let cell = if network.kind == Kind::Lstm { Some(state(network.width)?) } else { None };
        let (mut work, mut reserve) = (0, 0);
        // SAFETY: all objects are alive, and the pointers are those of local variables.
        let status = unsafe {
            (library.sizes_of_spaces)(
                handle.object,
                described.network.object,
                c_int::from(training),
                input.object,
                &raw mut work,
                &raw mut reserve,
            )
        };
        if status != SUCCESS {
            return None;
        }
        let reserve = if training { reserve } else { 0 };
        let network = network.clone();
        Some(Call {
            library,
            handle,
            network,
            described,
            input,
            output,
            hidden,
            cell,
            weights: 0,
            training,
            work,
            reserve,
        })
    }

    fn cell(&self) -> Object {
        self.cell.as_ref().map_or(null_mut(), |cell| cell.object)
    }

    /// Enqueues the pass. False if cuDNN refuses it after all; then the results have no values.
    ///
    /// # Safety
    /// The addresses are those of row-major tensors of these sizes, in memory of the device that is held for the stream.
    pub unsafe fn forward(&self, card: &Card, stream: StreamId, at: &Forward) -> Result<bool> {
        let workspace = Workspace::new(card.index, stream, self.work)?;
        let _relaxed = capture::Relaxed::begin();
        let mut status = SUCCESS;
        enqueue(card, "cudnnRNNForward", stream, || {
            // SAFETY: guaranteed by the caller; all objects are alive, and the workspace is held for the stream.
            status = unsafe {
                (self.library.run_network)(
                    self.handle.object,
                    self.described.network.object,
                    c_int::from(self.training),
                    null(),
                    self.input.object,
                    pointer(at.input),
                    self.output.object,
                    pointer(at.output),
                    self.hidden.object,
                    pointer(at.hx),
                    pointer(at.hy),
                    self.cell(),
                    pointer(at.cx),
                    pointer(at.cy),
                    self.weights,
                    pointer(at.weights),
                    workspace.bytes(),
                    workspace.pointer(),
                    self.reserve,
                    pointer(at.reserve),
                )
            };
            self.judge(status)
        })?;
        if status != SUCCESS {
            remember(card, &self.network, None);
        }
        Ok(status == SUCCESS)
    }

    /// An error unless the status is success or a refusal.
    fn judge(&self, status: Status) -> Result<()> {
        if is_refusal(status) { Ok(()) } else { self.library.check(status) }
    }

    /// Enqueues the gradients of a pass, which change its reserve.
    ///
    /// # Safety
    /// As `forward`. The given addresses are those of the operands and results of a pass of the same description, and of its reserve
    /// or a copy that no pass backward has changed.
    pub unsafe fn backward(&self, card: &Card, stream: StreamId, at: &Backward) -> Result<()> {
        let workspace = Workspace::new(card.index, stream, self.work)?;
        let _relaxed = capture::Relaxed::begin();
        let given = &at.given;
        enqueue(card, "cudnnRNNBackwardData_v8", stream, || {
            // SAFETY: guaranteed by the caller; all objects are alive, and the workspace is held for the stream.
            self.library.check(unsafe {
                (self.library.gradients_of_data)(
                    self.handle.object,
                    self.described.network.object,
                    null(),
                    self.output.object,
                    pointer(given.output),
                    pointer(at.grad_output),
                    self.input.object,
                    pointer(at.to_input),
                    self.hidden.object,
                    pointer(given.hx),
                    pointer(at.grad_hy),
                    pointer(at.to_hx),
                    self.cell(),
                    pointer(given.cx),
                    pointer(at.grad_cy),
                    pointer(at.to_cx),
                    self.weights,
                    pointer(given.weights),
                    workspace.bytes(),
                    workspace.pointer(),
                    self.reserve,
                    pointer(given.reserve),
                )
            })
        })?;
        enqueue(card, "cudnnRNNBackwardWeights_v8", stream, || {
            // SAFETY: as above.
            self.library.check(unsafe {
                (self.library.gradients_of_weights)(
                    self.handle.object,
                    self.described.network.object,
                    ADD,
                    null(),
                    self.input.object,
                    pointer(given.input),
                    self.hidden.object,
                    pointer(given.hx),
                    self.output.object,
                    pointer(given.output),
                    self.weights,
                    pointer(at.to_weights),
                    workspace.bytes(),
                    workspace.pointer(),
                    self.reserve,
                    pointer(given.reserve),
                )
            })
        })
    }
}
