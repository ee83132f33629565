//! The entry points of cuDNN that rushlight calls for convolutions; `cudnn_rnn` has those for recurrent networks. NVIDIA's documentation of
//! cuDNN describes them.
//!
//! Every call is checked: descriptions, that tensors are dense and fit each other, ranges and alignments of memory, the workspace of
//! the algorithm, and that one thread at a time uses a handle. Three algorithms stand for all: one that is never supported, one
//! without a workspace, whose gradients may differ from call to call, and one whose sums go through the workspace.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::convolutions::{Convolution, Place, Target};
use crate::driver::{capture_mode, current};
use crate::dtype::DType;
use crate::library::on_stream;
use crate::machine::{Machine, number, with};
use crate::status;
use crate::streams::{Library, Work};

pub type Status = c_int;
pub const SUCCESS: Status = 0;
const NOT_INITIALIZED: Status = 1001;
pub const BAD_PARAM: Status = 2000;
pub const NULL_POINTER: Status = 2002;
pub const MISALIGNED_POINTER: Status = 2003;
pub const SIZE_INSUFFICIENT: Status = 2006;
pub const SHAPE_MISMATCH: Status = 2008;
pub const NOT_SUPPORTED: Status = 3000;
const NOT_SUPPORTED_LAYOUT: Status = 3004;
const EXECUTION_FAILED: Status = 5000;

pub const FMA_MATH: c_int = 3;
/// Two algorithms that exist for all targets, and one that supports nothing here.
const PLAIN: c_int = 0;
const WITH_WORKSPACE: c_int = 1;
const UNSUPPORTED: c_int = 2;

pub struct Handle {
    pub device: c_int,
    stream: usize,
    busy: AtomicBool,
}

/// `cudnnTensorDescriptor_t`.
#[derive(Clone, Default)]
pub struct Tensor {
    pub data: c_int,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

/// `cudnnFilterDescriptor_t`.
#[derive(Clone, Default)]
pub struct Filter {
    data: c_int,
    channels_last: bool,
    sizes: Vec<i64>,
}

/// `cudnnConvolutionDescriptor_t`.
#[derive(Clone, Default)]
pub struct Geometry {
    padding: Vec<i64>,
    steps: Vec<i64>,
    dilation: Vec<i64>,
    compute: c_int,
    groups: i64,
    math: c_int,
}

/// `cudnnConvolutionFwdAlgoPerf_t` and its siblings.
#[repr(C)]
pub struct Performance {
    algorithm: c_int,
    status: Status,
    time: f32,
    workspace: usize,
    determinism: c_int,
    math: c_int,
    reserved: [c_int; 3],
}

/// The dtype of a number of `cudnnDataType_t`.
pub fn dtype(code: c_int) -> Option<DType> {
    Some(match code {
        0 => DType::R32,
        1 => DType::R64,
        2 => DType::R16,
        9 => DType::B16,
        _ => return None,
    })
}

/// Strides without gaps.
pub fn dense(sizes: &[i64], channels_last: bool) -> Vec<i64> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    if channels_last {
        order.remove(1);
        order.push(1);
    }
    let (mut strides, mut step) = (vec![0; sizes.len()], 1);
    for &dim in order.iter().rev() {
        strides[dim] = step;
        step *= sizes[dim];
    }
    strides
}

/// A list of numbers.
///
/// # Safety
/// There are `count` numbers at the address.
pub unsafe fn list(from: *const c_int, count: c_int) -> Vec<i64> {
    // SAFETY: guaranteed by the caller.
    (0..count.max(0) as usize).map(|n| unsafe { i64::from(from.add(n).read()) }).collect()
}

/// The convolution that descriptions describe, without addresses.
fn described(
    target: Target,
    input: &Tensor,
    weight: &Filter,
    output: &Tensor,
    own: &Geometry,
) -> Result<Convolution, Status> {
    let rank = input.sizes.len();
    let data = dtype(input.data).ok_or(BAD_PARAM)?;
    if [input.data, weight.data, output.data] != [input.data; 3] || dtype(own.compute) != Some(data.summed()) {
        return Err(BAD_PARAM);
    }
    if weight.sizes.len() != rank || output.sizes.len() != rank || own.padding.len() != rank - 2 {
        return Err(SHAPE_MISMATCH);
    }
    for tensor in [input, output] {
        if tensor.strides != dense(&tensor.sizes, weight.channels_last) {
            return Err(NOT_SUPPORTED_LAYOUT);
        }
    }
    let count = |dim: usize| {
        let reach = (weight.sizes[2 + dim] - 1) * own.dilation[dim];
        (input.sizes[2 + dim] + 2 * own.padding[dim] - reach - 1) / own.steps[dim] + 1
    };
    let fits = input.sizes[0] == output.sizes[0]
        && weight.sizes[1] * own.groups == input.sizes[1]
        && weight.sizes[0] == output.sizes[1]
        && weight.sizes[0] % own.groups == 0
        && (0..rank - 2).all(|dim| count(dim) == output.sizes[2 + dim]);
    if !fits {
        return Err(SHAPE_MISMATCH);
    }
    if data == DType::R64 && weight.channels_last {
        return Err(NOT_SUPPORTED_LAYOUT);
    }
    let place =
        |sizes: &Vec<i64>| Place { address: 0, sizes: sizes.clone(), strides: dense(sizes, weight.channels_last) };
    Ok(Convolution {
        target,
        data,
        tf32: data == DType::R32 && own.math != FMA_MATH,
        input: place(&input.sizes),
        weight: place(&weight.sizes),
        output: place(&output.sizes),
        steps: own.steps.clone(),
        padding: own.padding.clone(),
        dilation: own.dilation.clone(),
        groups: own.groups,
        alpha: 1.0,
        beta: 0.0,
        workspace: None,
    })
}

/// The place of the operands and of the result, in the order of the functions' parameters.
fn operands(convolution: &mut Convolution) -> [&mut Place; 3] {
    let Convolution { input, weight, output, .. } = convolution;
    match convolution.target {
        Target::Output => [input, weight, output],
        Target::Input => [weight, output, input],
        Target::Weight => [input, output, weight],
    }
}

/// The bytes that an algorithm needs; an error if it does not support the convolution.
fn workspace(convolution: &mut Convolution, algorithm: c_int) -> Result<usize, Status> {
    if std::env::var("SOFTCUDA_DNN_REFUSES").is_ok_and(|what| what == "algorithms") {
        return Err(NOT_SUPPORTED);
    }
    let [.., result] = operands(convolution);
    match algorithm {
        PLAIN => Ok(0),
        WITH_WORKSPACE => Ok(result.count() as usize * 8),
        _ => Err(NOT_SUPPORTED),
    }
}

/// Whether equal calls may give different bits.
fn is_loose(target: Target, algorithm: c_int) -> bool {
    algorithm == PLAIN && target != Target::Output
}

/// Writes what is known about the algorithms, the recommended ones first.
unsafe fn report(
    described: Result<Convolution, Status>,
    math: c_int,
    room: Option<usize>,
    wanted: c_int,
    count: *mut c_int,
    found: *mut Performance,
) -> Status {
    let mut convolution = match described {
        Ok(convolution) => convolution,
        Err(status) => return status,
    };
    if wanted < 1 || count.is_null() || found.is_null() {
        return BAD_PARAM;
    }
    let order = match room {
        Some(_) => [WITH_WORKSPACE, PLAIN, UNSUPPORTED],
        None => [UNSUPPORTED, PLAIN, WITH_WORKSPACE],
    };
    let mut written = 0;
    for algorithm in order.into_iter().take(wanted as usize) {
        let (status, needed) = match workspace(&mut convolution, algorithm) {
            Ok(bytes) if room.is_some_and(|room| bytes > room) => (SIZE_INSUFFICIENT, bytes),
            Ok(bytes) => (SUCCESS, bytes),
            Err(status) => (status, 0),
        };
        let determinism = c_int::from(!is_loose(convolution.target, algorithm));
        let one = Performance { algorithm, status, time: 1.0, workspace: needed, determinism, math, reserved: [0; 3] };
        // SAFETY: the caller has room for as many as it wants.
        unsafe { found.add(written as usize).write(one) };
        written += 1;
    }
    // SAFETY: checked above.
    unsafe { *count = written };
    SUCCESS
}

/// Runs a function that enqueues work on a handle's stream. A handle is one thread's at a time.
pub fn on_handle(handle: &Handle, mut run: impl FnMut(&mut Machine, usize) -> Status) -> Status {
    if handle.busy.swap(true, Ordering::Acquire) {
        return EXECUTION_FAILED;
    }
    let mut done = EXECUTION_FAILED;
    if current() == Ok(handle.device) {
        on_stream(handle.device, handle.stream, |machine, stream| done = run(machine, stream));
    }
    handle.busy.store(false, Ordering::Release);
    done
}

/// Places the tensors of a call in memory, which is checked.
fn placed(
    machine: &Machine,
    device: c_int,
    convolution: &mut Convolution,
    addresses: [usize; 3],
    (space, given, needed): (usize, usize, usize),
) -> Status {
    if addresses.contains(&0) || (needed > 0 && space == 0) {
        return NULL_POINTER;
    }
    if given < needed {
        return SIZE_INSUFFICIENT;
    }
    if addresses.iter().chain(&[space]).any(|address| !address.is_multiple_of(16)) {
        return MISALIGNED_POINTER;
    }
    let width = convolution.data.bytes();
    let mut ranges = vec![(space, given)];
    for (place, address) in operands(convolution).into_iter().zip(addresses) {
        place.address = address;
        ranges.push((address, place.count() as usize * width));
    }
    let owned = |&(at, bytes): &(usize, usize)| bytes == 0 || machine.memory.device_of(at, bytes) == Some(device);
    if ranges.iter().all(owned) { SUCCESS } else { BAD_PARAM }
}

/// Measures all algorithms: waits for the stream, and leaves something in the result.
fn measured(
    handle: &Handle,
    described: &Result<Convolution, Status>,
    addresses: [usize; 3],
    space: usize,
    bytes: usize,
) -> Status {
    let Ok(mut convolution) = described.clone() else { return SUCCESS };
    on_handle(handle, |machine, stream| {
        if machine.graphs.invalidate(stream) != status::SUCCESS {
            return EXECUTION_FAILED;
        }
        let status = placed(machine, handle.device, &mut convolution, addresses, (space, bytes, 0));
        if status != SUCCESS {
            return status;
        }
        let width = convolution.data.bytes();
        let [.., result] = operands(&mut convolution);
        let (to, count) = (result.address, result.count() as usize * width);
        machine.enqueue(stream, Work::Fill { to, pattern: vec![0xff], count });
        machine.drain(stream);
        machine.measurements += 1;
        SUCCESS
    })
}

unsafe fn enqueued(
    handle: &Handle,
    described: Result<Convolution, Status>,
    [alpha, beta]: [*const c_void; 2],
    addresses: [usize; 3],
    algorithm: c_int,
    space: usize,
    bytes: usize,
) -> Status {
    let mut convolution = match described {
        Ok(convolution) => convolution,
        Err(status) => return status,
    };
    let needed = match workspace(&mut convolution, algorithm) {
        Ok(needed) => needed,
        Err(status) => return status,
    };
    if std::env::var("SOFTCUDA_DNN_REFUSES").is_ok_and(|what| what == "calls") {
        return NOT_SUPPORTED;
    }
    let summed = convolution.data.summed();
    // SAFETY: both factors have the dtype of sums.
    unsafe {
        convolution.alpha = summed.load(alpha as usize)[0];
        convolution.beta = summed.load(beta as usize)[0];
    }
    convolution.workspace = (needed > 0).then_some(space);
    let loose = is_loose(convolution.target, algorithm);
    on_handle(handle, |machine, stream| {
        let status = placed(machine, handle.device, &mut convolution, addresses, (space, bytes, needed));
        if status == SUCCESS {
            let library = if loose { Library::LooseConvolutions } else { Library::Convolutions };
            let own = convolution.clone();
            let run = move || {
                // SAFETY: the operands and the workspace were checked, and freeing memory waits for its device.
                unsafe { own.run() };
                Ok(())
            };
            machine.enqueue(stream, Work::Compute(library, Arc::new(run)));
        }
        status
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    number("SOFTCUDA_DNN_VERSION").unwrap_or(90_000) as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(status: Status) -> *const c_char {
    match status {
        SUCCESS => c"CUDNN_STATUS_SUCCESS",
        NOT_INITIALIZED => c"CUDNN_STATUS_NOT_INITIALIZED",
        2000..3000 => c"CUDNN_STATUS_BAD_PARAM",
        3000..4000 => c"CUDNN_STATUS_NOT_SUPPORTED",
        _ => c"CUDNN_STATUS_EXECUTION_FAILED",
    }
    .as_ptr()
}

entries! {
    cudnnCreate(handle: *mut *mut Handle) {
        let Ok(device) = current() else { return NOT_INITIALIZED };
        let mut forbidden = false;
        with(|machine| {
            forbidden = machine.graphs.forbids(capture_mode());
            status::SUCCESS
        });
        if forbidden { return EXECUTION_FAILED; }
        *handle = Box::into_raw(Box::new(Handle { device, stream: 0, busy: AtomicBool::new(false) }));
        SUCCESS
    }

    cudnnSetStream(handle: *mut Handle, stream: usize) {
        let handle = &mut *handle;
        handle.stream = stream;
        on_handle(handle, |_, _| SUCCESS)
    }

    cudnnCreateTensorDescriptor(made: *mut *mut Tensor) {
        *made = Box::into_raw(Box::default());
        SUCCESS
    }

    cudnnSetTensorNdDescriptor(tensor: *mut Tensor, data: c_int, rank: c_int, sizes: *const c_int, strides: *const c_int) {
        if !(3..=8).contains(&rank) || dtype(data).is_none() { return BAD_PARAM; }
        let (sizes, strides) = (list(sizes, rank), list(strides, rank));
        if sizes.iter().chain(&strides).any(|&number| number < 1) { return BAD_PARAM; }
        *tensor = Tensor { data, sizes, strides };
        SUCCESS
    }

    cudnnDestroyTensorDescriptor(tensor: *mut Tensor) { drop(Box::from_raw(tensor)); SUCCESS }

    cudnnCreateFilterDescriptor(made: *mut *mut Filter) {
        *made = Box::into_raw(Box::default());
        SUCCESS
    }

    cudnnSetFilterNdDescriptor(filter: *mut Filter, data: c_int, format: c_int, rank: c_int, sizes: *const c_int) {
        if !(4..=8).contains(&rank) || dtype(data).is_none() || !(0..=1).contains(&format) { return BAD_PARAM; }
        let sizes = list(sizes, rank);
        if sizes.iter().any(|&number| number < 1) { return BAD_PARAM; }
        *filter = Filter { data, channels_last: format == 1, sizes };
        SUCCESS
    }

    cudnnDestroyFilterDescriptor(filter: *mut Filter) { drop(Box::from_raw(filter)); SUCCESS }

    cudnnCreateConvolutionDescriptor(made: *mut *mut Geometry) {
        *made = Box::into_raw(Box::new(Geometry { groups: 1, ..Geometry::default() }));
        SUCCESS
    }

    cudnnSetConvolutionNdDescriptor(
        own: *mut Geometry, count: c_int, padding: *const c_int, steps: *const c_int, dilation: *const c_int, mode: c_int,
        compute: c_int
    ) {
        if !(2..=6).contains(&count) || mode != 1 { return BAD_PARAM; }
        let (padding, steps, dilation) = (list(padding, count), list(steps, count), list(dilation, count));
        if padding.iter().any(|&number| number < 0) { return BAD_PARAM; }
        if steps.iter().chain(&dilation).any(|&number| number < 1) { return BAD_PARAM; }
        let own = &mut *own;
        *own = Geometry { padding, steps, dilation, compute, groups: own.groups, math: own.math };
        SUCCESS
    }

    cudnnSetConvolutionGroupCount(own: *mut Geometry, groups: c_int) {
        if groups < 1 { return BAD_PARAM; }
        (*own).groups = i64::from(groups);
        SUCCESS
    }

    cudnnSetConvolutionMathType(own: *mut Geometry, math: c_int) {
        if !(0..=FMA_MATH).contains(&math) { return BAD_PARAM; }
        (*own).math = math;
        SUCCESS
    }

    cudnnDestroyConvolutionDescriptor(own: *mut Geometry) { drop(Box::from_raw(own)); SUCCESS }
}

/// Defines the four functions of a target, whose descriptions of two operands and of a result have these types and places.
macro_rules! targets {
    ($input:ident $weight:ident $output:ident; $($target:ident $recommend:ident $size:ident $measure:ident $run:ident
       ($first:ident: $first_kind:ty, $second:ident: $second_kind:ty, $result:ident: $result_kind:ty))*) => { entries! {$(
        $recommend(
            handle: *const Handle, $first: *const $first_kind, $second: *const $second_kind, own: *const Geometry,
            $result: *const $result_kind, wanted: c_int, count: *mut c_int, found: *mut Performance
        ) {
            if handle.is_null() { return NULL_POINTER; }
            let described = described(Target::$target, &*$input, &*$weight, &*$output, &*own);
            report(described, (*own).math, None, wanted, count, found)
        }

        $size(
            handle: *const Handle, $first: *const $first_kind, $second: *const $second_kind, own: *const Geometry,
            $result: *const $result_kind, algorithm: c_int, bytes: *mut usize
        ) {
            if handle.is_null() { return NULL_POINTER; }
            let described = described(Target::$target, &*$input, &*$weight, &*$output, &*own);
            match described.and_then(|mut convolution| workspace(&mut convolution, algorithm)) {
                Ok(needed) => { *bytes = needed; SUCCESS }
                Err(status) => status,
            }
        }

        $measure(
            handle: *const Handle, $first: *const $first_kind, first_at: usize, $second: *const $second_kind, second_at: usize,
            own: *const Geometry, $result: *const $result_kind, result_at: usize, wanted: c_int, count: *mut c_int,
            found: *mut Performance, space: usize, bytes: usize
        ) {
            if handle.is_null() { return NULL_POINTER; }
            let described = described(Target::$target, &*$input, &*$weight, &*$output, &*own);
            match measured(&*handle, &described, [first_at, second_at, result_at], space, bytes) {
                SUCCESS => report(described, (*own).math, Some(bytes), wanted, count, found),
                status => status,
            }
        }

        $run(
            handle: *const Handle, alpha: *const c_void, $first: *const $first_kind, first_at: usize, $second: *const $second_kind,
            second_at: usize, own: *const Geometry, algorithm: c_int, space: usize, bytes: usize, beta: *const c_void,
            $result: *const $result_kind, result_at: usize
        ) {
            if handle.is_null() { return NULL_POINTER; }
            let described = described(Target::$target, &*$input, &*$weight, &*$output, &*own);
            enqueued(&*handle, described, [alpha, beta], [first_at, second_at, result_at], algorithm, space, bytes)
        }
    )*}};
}

targets! {
    input weight output;
    Output cudnnGetConvolutionForwardAlgorithm_v7 cudnnGetConvolutionForwardWorkspaceSize
        cudnnFindConvolutionForwardAlgorithmEx cudnnConvolutionForward (input: Tensor, weight: Filter, output: Tensor)
    Input cudnnGetConvolutionBackwardDataAlgorithm_v7 cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnFindConvolutionBackwardDataAlgorithmEx cudnnConvolutionBackwardData (weight: Filter, output: Tensor, input: Tensor)
    Weight cudnnGetConvolutionBackwardFilterAlgorithm_v7 cudnnGetConvolutionBackwardFilterWorkspaceSize
        cudnnFindConvolutionBackwardFilterAlgorithmEx cudnnConvolutionBackwardFilter (input: Tensor, output: Tensor, weight: Filter)
}
