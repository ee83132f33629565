//! The entry points of cuDNN that rushlight calls for recurrent networks. NVIDIA's documentation of cuDNN describes them.
//!
//! Every call is checked: descriptions and whether they fit each other, the sizes of buffers, workspaces and reserves, ranges and
//! alignments of memory. A reserve names the call that wrote it: one of another network, one that a pass forward has not filled, or
//! one that a pass backward has already changed, stops the device.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::cudnn::{
    BAD_PARAM, FMA_MATH, Handle, MISALIGNED_POINTER, NOT_SUPPORTED, NULL_POINTER, SHAPE_MISMATCH, SIZE_INSUFFICIENT,
    SUCCESS, Status, Tensor, dense, dtype, list, on_handle,
};
use crate::dtype::DType;
use crate::networks::{Kind, Network, Places};
use crate::streams::{Library, Work};

const NO_BIAS: c_int = 0;
const DOUBLE_BIAS: c_int = 2;
const UNPACKED: c_int = 0;
const PACKED: c_int = 1;
const PADDED: u32 = 1;
const ADD: c_int = 0;

/// `cudnnDropoutDescriptor_t`.
#[derive(Default)]
pub struct Dropout {
    is_set: bool,
}

/// `cudnnRNNDescriptor_t`.
#[derive(Default)]
pub struct NetworkDescription {
    set: Option<Described>,
}

#[derive(Clone)]
struct Described {
    network: Network,
    code: c_int,
    padded: bool,
}

/// `cudnnRNNDataDescriptor_t`.
#[derive(Clone, Default, PartialEq)]
pub struct Sequences {
    data: c_int,
    layout: c_int,
    features: i64,
    lengths: Vec<i64>,
}

fn refuses(what: &str) -> bool {
    std::env::var("SOFTCUDA_DNN_REFUSES").is_ok_and(|refused| refused == what)
}

/// The network over sequences.
fn over(description: &NetworkDescription, input: &Sequences) -> Result<Network, Status> {
    let set = description.set.as_ref().ok_or(BAD_PARAM)?;
    let mut network = set.network.clone();
    if input.data != set.code || input.features != network.input as i64 {
        return Err(SHAPE_MISMATCH);
    }
    network.packed = input.layout == PACKED;
    if network.packed == set.padded {
        return Err(BAD_PARAM);
    }
    network.lengths = input.lengths.iter().map(|&length| length as usize).collect();
    Ok(network)
}

/// The same, checked with all that is described besides.
unsafe fn described(
    description: *const NetworkDescription,
    input: *const Sequences,
    output: *const Sequences,
    hidden: *const Tensor,
    cells: *const Tensor,
) -> Result<Network, Status> {
    // SAFETY: callers pass descriptions, or null.
    unsafe {
        let (Some(description), Some(input), Some(hidden)) = (description.as_ref(), input.as_ref(), hidden.as_ref())
        else {
            return Err(NULL_POINTER);
        };
        let network = over(description, input)?;
        if let Some(output) = output.as_ref() {
            let features = (network.output * network.directions) as i64;
            if *output != (Sequences { features, ..input.clone() }) {
                return Err(SHAPE_MISMATCH);
            }
        }
        let rows = (network.layers * network.directions) as i64;
        let is_state = |tensor: &Tensor, features: usize| {
            let sizes = vec![rows, network.lengths.len() as i64, features as i64];
            tensor.data == input.data && tensor.strides == dense(&sizes, false) && tensor.sizes == sizes
        };
        if !is_state(hidden, network.output) || cells.as_ref().is_some_and(|cells| !is_state(cells, network.width)) {
            return Err(SHAPE_MISMATCH);
        }
        Ok(network)
    }
}

/// A range of memory, and whether it may be missing.
struct Range {
    at: usize,
    elements: usize,
    optional: bool,
}

fn needed(at: usize, elements: usize) -> Range {
    Range { at, elements, optional: false }
}

fn optional(at: usize, elements: usize) -> Range {
    Range { at, elements, optional: true }
}

/// The sizes of the three buffers of a call, as they were passed, with their addresses.
struct Buffers {
    weights: (usize, usize),
    work: (usize, usize),
    reserve: (usize, usize),
}

/// Enqueues a pass after all checks. `run` says whether the reserve was the right one.
fn enqueued(
    handle: *const Handle,
    network: &Network,
    ranges: Vec<Range>,
    buffers: &Buffers,
    reserve_bytes: usize,
    run: impl Fn(&Network) -> bool + Send + Sync + 'static,
) -> Status {
    if refuses("calls") {
        return NOT_SUPPORTED;
    }
    // SAFETY: callers pass a handle, or null.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return NULL_POINTER };
    let width = network.data.bytes();
    if buffers.weights.1 != network.weight_elements() * width || buffers.reserve.1 != reserve_bytes {
        return BAD_PARAM;
    }
    if buffers.work.1 < network.work_bytes() {
        return SIZE_INSUFFICIENT;
    }
    let mut bytes = vec![buffers.weights, buffers.work];
    if reserve_bytes > 0 {
        bytes.push(buffers.reserve);
    }
    for range in &ranges {
        match (range.at, range.optional) {
            (0, true) => {}
            (0, false) => return NULL_POINTER,
            (at, _) => bytes.push((at, range.elements * width)),
        }
    }
    if bytes.iter().any(|(at, _)| *at == 0) {
        return NULL_POINTER;
    }
    if bytes.iter().any(|(at, _)| !at.is_multiple_of(16)) {
        return MISALIGNED_POINTER;
    }
    let (device, work) = (handle.device, buffers.work);
    let run = Arc::new(run);
    on_handle(handle, |machine, stream| {
        if !bytes.iter().all(|&(at, count)| machine.memory.device_of(at, count) == Some(device)) {
            return BAD_PARAM;
        }
        let (network, run) = (network.clone(), Arc::clone(&run));
        let pass = move || {
            // SAFETY: the range was checked, and freeing memory waits for its device.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(work.0).write_bytes(0xab, work.1) };
            if run(&network) { Ok(()) } else { Err("the reserve is not that of this network's last pass") }
        };
        machine.enqueue(stream, Work::Compute(Library::Networks, Arc::new(pass)));
        SUCCESS
    })
}

entries! {
    cudnnCreateDropoutDescriptor(made: *mut *mut Dropout) {
        *made = Box::into_raw(Box::default());
        SUCCESS
    }

    cudnnSetDropoutDescriptor(
        dropout: *mut Dropout, handle: *const Handle, part: f32, states: usize, bytes: usize, _seed: u64
    ) {
        if dropout.is_null() || handle.is_null() { return NULL_POINTER; }
        if part != 0.0 || states != 0 || bytes != 0 { return NOT_SUPPORTED; }
        (*dropout).is_set = true;
        SUCCESS
    }

    cudnnDestroyDropoutDescriptor(dropout: *mut Dropout) { drop(Box::from_raw(dropout)); SUCCESS }

    cudnnCreateRNNDescriptor(made: *mut *mut NetworkDescription) {
        *made = Box::into_raw(Box::default());
        SUCCESS
    }

    cudnnSetRNNDescriptor_v8(
        description: *mut NetworkDescription, algorithm: c_int, mode: c_int, bias: c_int, direction: c_int, skips: c_int, data: c_int,
        compute: c_int, math: c_int, input: i32, width: i32, output: i32, count: i32, dropout: *const Dropout, flags: u32
    ) {
        if description.is_null() || dropout.is_null() { return NULL_POINTER; }
        if algorithm != 0 || skips != 0 || refuses("networks") { return NOT_SUPPORTED; }
        let kind = match mode {
            0 => Kind::Relu,
            1 => Kind::Tanh,
            2 => Kind::Lstm,
            3 => Kind::Gru,
            _ => return BAD_PARAM,
        };
        let Some(of_data) = dtype(data) else { return BAD_PARAM };
        let known = [NO_BIAS, DOUBLE_BIAS].contains(&bias)
            && (0..=1).contains(&direction)
            && dtype(compute) == Some(of_data.summed())
            && (0..=FMA_MATH).contains(&math)
            && [input, width, output, count].iter().all(|&number| number > 0)
            && (output == width || output < width && kind == Kind::Lstm)
            && flags <= PADDED
            && (*dropout).is_set;
        if !known { return BAD_PARAM; }
        let network = Network {
            kind,
            data: of_data,
            tf32: of_data == DType::R32 && math != FMA_MATH,
            biased: bias == DOUBLE_BIAS,
            directions: direction as usize + 1,
            layers: count as usize,
            input: input as usize,
            width: width as usize,
            output: output as usize,
            lengths: Vec::new(),
            packed: false,
        };
        (*description).set = Some(Described { network, code: data, padded: flags == PADDED });
        SUCCESS
    }

    cudnnDestroyRNNDescriptor(description: *mut NetworkDescription) { drop(Box::from_raw(description)); SUCCESS }

    cudnnCreateRNNDataDescriptor(made: *mut *mut Sequences) {
        *made = Box::into_raw(Box::default());
        SUCCESS
    }

    cudnnSetRNNDataDescriptor(
        own: *mut Sequences, data: c_int, layout: c_int, longest: c_int, count: c_int, features: c_int,
        lengths: *const c_int, _fill: *const c_void
    ) {
        if own.is_null() || lengths.is_null() { return NULL_POINTER; }
        if ![UNPACKED, PACKED].contains(&layout) { return NOT_SUPPORTED; }
        if dtype(data).is_none() || longest < 1 || count < 1 || features < 1 { return BAD_PARAM; }
        let lengths = list(lengths, count);
        let fits = lengths.iter().all(|&length| (1..=i64::from(longest)).contains(&length));
        if !fits || lengths[0] != i64::from(longest) { return BAD_PARAM; }
        let falls = lengths.windows(2).all(|pair| pair[0] >= pair[1]);
        if !falls || layout == UNPACKED && lengths.iter().any(|&length| length != lengths[0]) { return NOT_SUPPORTED; }
        *own = Sequences { data, layout, features: i64::from(features), lengths };
        SUCCESS
    }

    cudnnDestroyRNNDataDescriptor(own: *mut Sequences) { drop(Box::from_raw(own)); SUCCESS }

    cudnnGetRNNWeightSpaceSize(handle: *const Handle, description: *const NetworkDescription, bytes: *mut usize) {
        if handle.is_null() || bytes.is_null() { return NULL_POINTER; }
        let Some(set) = &(*description).set else { return BAD_PARAM };
        *bytes = set.network.weight_elements() * set.network.data.bytes();
        SUCCESS
    }

    cudnnGetRNNWeightParams(
        handle: *const Handle, description: *const NetworkDescription, pseudo: i32, bytes: usize, space: usize, number: i32,
        matrix: *mut Tensor, matrix_at: *mut usize, bias: *mut Tensor, bias_at: *mut usize
    ) {
        if handle.is_null() || space == 0 || matrix.is_null() || bias.is_null() { return NULL_POINTER; }
        let Some(Described { network, code, .. }) = &(*description).set else { return BAD_PARAM };
        let size = network.data.bytes();
        if bytes != network.weight_elements() * size { return BAD_PARAM; }
        if !(0..network.layers * network.directions).contains(&(pseudo as usize)) || number < 0 { return BAD_PARAM; }
        let tensor = |rows: usize, columns: usize| {
            let sizes = vec![1, rows as i64, columns as i64];
            Tensor { data: *code, strides: dense(&sizes, false), sizes }
        };
        let (mut of_matrix, mut of_bias) = (0, 0);
        if let Some((first, own_bias, [rows, columns])) = network.part(pseudo as usize, number as usize) {
            of_matrix = space + first * size;
            *matrix = tensor(rows, columns);
            if let Some(first) = own_bias {
                of_bias = space + first * size;
                *bias = tensor(rows, 1);
            }
        }
        *matrix_at = of_matrix;
        *bias_at = of_bias;
        SUCCESS
    }

    cudnnGetRNNTempSpaceSizes(
        handle: *const Handle, description: *const NetworkDescription, mode: c_int, input: *const Sequences, work: *mut usize,
        reserve: *mut usize
    ) {
        if handle.is_null() || work.is_null() || reserve.is_null() { return NULL_POINTER; }
        if !(0..=1).contains(&mode) { return BAD_PARAM; }
        match over(&*description, &*input) {
            Ok(network) => {
                *work = network.work_bytes();
                *reserve = if mode == 1 { network.reserve_bytes() } else { 0 };
                SUCCESS
            }
            Err(status) => status,
        }
    }

    cudnnRNNForward(
        handle: *const Handle, description: *const NetworkDescription, mode: c_int, lengths: usize, input: *const Sequences, x: usize,
        output: *const Sequences, y: usize, hidden: *const Tensor, hx: usize, hy: usize, cells: *const Tensor, cx: usize,
        cy: usize, weight_bytes: usize, weights: usize, work_bytes: usize, work: usize, reserve_bytes: usize,
        reserve: usize
    ) {
        if lengths != 0 || !(0..=1).contains(&mode) || output.is_null() { return BAD_PARAM; }
        let network = match described(description, input, output, hidden, cells) {
            Ok(network) => network,
            Err(status) => return status,
        };
        let (states, wide) = sizes(&network);
        let mut ranges = vec![
            needed(x, network.rows() * network.input),
            needed(y, network.rows() * network.directions * network.output),
            needed(hx, states * network.output),
            needed(hy, states * network.output),
        ];
        match of_cells(&network, &[cx, cy], cells, wide) {
            Ok(more) => ranges.extend(more),
            Err(status) => return status,
        }
        let places = Places { x, y, hx, hy, cx, cy, weights, reserve: if mode == 1 { reserve } else { 0 }, ..Places::default() };
        let kept = if mode == 1 { network.reserve_bytes() } else { 0 };
        let buffers = Buffers { weights: (weights, weight_bytes), work: (work, work_bytes), reserve: (reserve, reserve_bytes) };
        enqueued(handle, &network, ranges, &buffers, kept, move |network| {
            network.forward(&places);
            true
        })
    }

    cudnnRNNBackwardData_v8(
        handle: *const Handle, description: *const NetworkDescription, lengths: usize, output: *const Sequences, y: usize, dy: usize,
        input: *const Sequences, dx: usize, hidden: *const Tensor, hx: usize, dhy: usize, dhx: usize, cells: *const Tensor,
        cx: usize, dcy: usize, dcx: usize, weight_bytes: usize, weights: usize, work_bytes: usize, work: usize,
        reserve_bytes: usize, reserve: usize
    ) {
        if lengths != 0 || output.is_null() { return BAD_PARAM; }
        let network = match described(description, input, output, hidden, cells) {
            Ok(network) => network,
            Err(status) => return status,
        };
        let (states, wide) = sizes(&network);
        let of_output = network.rows() * network.directions * network.output;
        let mut ranges = vec![
            needed(y, of_output),
            needed(dy, of_output),
            needed(dx, network.rows() * network.input),
            needed(hx, states * network.output),
            optional(dhy, states * network.output),
            needed(dhx, states * network.output),
        ];
        match of_cells(&network, &[cx, dcx], cells, wide) {
            Ok(more) => ranges.extend(more),
            Err(status) => return status,
        }
        ranges.push(optional(dcy, wide));
        let places = Places { y, dy, dx, hx, dhy, dhx, cx, dcy, dcx, weights, reserve, ..Places::default() };
        let buffers = Buffers { weights: (weights, weight_bytes), work: (work, work_bytes), reserve: (reserve, reserve_bytes) };
        let kept = network.reserve_bytes();
        enqueued(handle, &network, ranges, &buffers, kept, move |network| network.backward_data(&places))
    }

    cudnnRNNBackwardWeights_v8(
        handle: *const Handle, description: *const NetworkDescription, mode: c_int, lengths: usize, input: *const Sequences, x: usize,
        hidden: *const Tensor, hx: usize, output: *const Sequences, y: usize, weight_bytes: usize, weights: usize,
        work_bytes: usize, work: usize, reserve_bytes: usize, reserve: usize
    ) {
        if mode != ADD { return NOT_SUPPORTED; }
        if lengths != 0 || output.is_null() { return BAD_PARAM; }
        let network = match described(description, input, output, hidden, std::ptr::null()) {
            Ok(network) => network,
            Err(status) => return status,
        };
        let (states, _) = sizes(&network);
        let ranges = vec![
            needed(x, network.rows() * network.input),
            needed(hx, states * network.output),
            needed(y, network.rows() * network.directions * network.output),
        ];
        let places = Places { x, hx, y, weights, reserve, ..Places::default() };
        let buffers = Buffers { weights: (weights, weight_bytes), work: (work, work_bytes), reserve: (reserve, reserve_bytes) };
        let kept = network.reserve_bytes();
        enqueued(handle, &network, ranges, &buffers, kept, move |network| network.backward_weights(&places))
    }
}

/// The number of states, and the elements of all cells.
fn sizes(network: &Network) -> (usize, usize) {
    let states = network.layers * network.directions * network.lengths.len();
    (states, states * network.width)
}

/// The ranges of cells, which only an LSTM has.
fn of_cells(network: &Network, at: &[usize], described: *const Tensor, elements: usize) -> Result<Vec<Range>, Status> {
    match network.kind == Kind::Lstm {
        true if described.is_null() => Err(NULL_POINTER),
        true => Ok(at.iter().map(|&at| needed(at, elements)).collect()),
        false if at.iter().any(|&at| at != 0) || !described.is_null() => Err(BAD_PARAM),
        false => Ok(Vec::new()),
    }
}
