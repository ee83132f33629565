//! The functions of cuDNN 9 that are called, and what they return.
//!
//! Statuses, algorithms and kinds of arithmetic are numbers here, because a later version of the library may have more of them.

use std::ffi::{CStr, c_char, c_float, c_int, c_void};

use once_cell::race::OnceBox;
use rushlight_core::{Error, Result};

use crate::library::Library;

pub type Status = c_int;
pub const SUCCESS: Status = 0;

/// A handle, or the description of a tensor, a weight or a convolution.
pub type Object = *mut c_void;

/// What is known about an algorithm (`cudnnConvolutionFwdAlgoPerf_t` and its two siblings).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Answer {
    pub algorithm: c_int,
    pub status: Status,
    pub time: c_float,
    pub workspace: usize,
    pub determinism: c_int,
    pub math: c_int,
    pub reserved: [c_int; 3],
}

impl Answer {
    pub const EMPTY: Answer =
        Answer { algorithm: 0, status: 0, time: 0.0, workspace: 0, determinism: 0, math: 0, reserved: [0; 3] };
}

type Create = unsafe extern "C" fn(*mut Object) -> Status;
type Destroy = unsafe extern "C" fn(Object) -> Status;
type Ask = unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut c_int, *mut Answer) -> Status;
type Size = unsafe extern "C" fn(Object, Object, Object, Object, Object, c_int, *mut usize) -> Status;
type Measure = unsafe extern "C" fn(
    Object,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    Object,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut Answer,
    *mut c_void,
    usize,
) -> Status;
type Run = unsafe extern "C" fn(
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    c_int,
    *mut c_void,
    usize,
    *const c_void,
    Object,
    *mut c_void,
) -> Status;

macro_rules! functions {
    ($($name:ident: $kind:ty = $own:literal;)*) => {
        /// The functions. The three that convolve, and what belongs to them, have the same parameters: a handle, two operands and
        /// a result, in this order.
        pub struct Functions { $(pub $name: $kind,)* }

        impl Functions {
            fn of(library: &Library) -> Option<Functions> {
                // SAFETY: these functions have these types in all versions 9 of cuDNN.
                Some(unsafe { Functions { $($name: std::mem::transmute::<*mut c_void, $kind>(library.function($own)?),)* } })
            }
        }
    };
}

functions! {
    version: unsafe extern "C" fn() -> usize = c"cudnnGetVersion";
    describe: unsafe extern "C" fn(Status) -> *const c_char = c"cudnnGetErrorString";
    create: Create = c"cudnnCreate";
    set_stream: unsafe extern "C" fn(Object, *mut c_void) -> Status = c"cudnnSetStream";
    create_tensor: Create = c"cudnnCreateTensorDescriptor";
    set_tensor: unsafe extern "C" fn(Object, c_int, c_int, *const c_int, *const c_int) -> Status = c"cudnnSetTensorNdDescriptor";
    destroy_tensor: Destroy = c"cudnnDestroyTensorDescriptor";
    create_weight: Create = c"cudnnCreateFilterDescriptor";
    set_weight: unsafe extern "C" fn(Object, c_int, c_int, c_int, *const c_int) -> Status = c"cudnnSetFilterNdDescriptor";
    destroy_weight: Destroy = c"cudnnDestroyFilterDescriptor";
    create_convolution: Create = c"cudnnCreateConvolutionDescriptor";
    set_convolution: unsafe extern "C" fn(Object, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int) -> Status
        = c"cudnnSetConvolutionNdDescriptor";
    set_groups: unsafe extern "C" fn(Object, c_int) -> Status = c"cudnnSetConvolutionGroupCount";
    set_math: unsafe extern "C" fn(Object, c_int) -> Status = c"cudnnSetConvolutionMathType";
    destroy_convolution: Destroy = c"cudnnDestroyConvolutionDescriptor";
    ask_output: Ask = c"cudnnGetConvolutionForwardAlgorithm_v7";
    ask_input: Ask = c"cudnnGetConvolutionBackwardDataAlgorithm_v7";
    ask_weight: Ask = c"cudnnGetConvolutionBackwardFilterAlgorithm_v7";
    measure_output: Measure = c"cudnnFindConvolutionForwardAlgorithmEx";
    measure_input: Measure = c"cudnnFindConvolutionBackwardDataAlgorithmEx";
    measure_weight: Measure = c"cudnnFindConvolutionBackwardFilterAlgorithmEx";
    size_output: Size = c"cudnnGetConvolutionForwardWorkspaceSize";
    size_input: Size = c"cudnnGetConvolutionBackwardDataWorkspaceSize";
    size_weight: Size = c"cudnnGetConvolutionBackwardFilterWorkspaceSize";
    run_output: Run = c"cudnnConvolutionForward";
    run_input: Run = c"cudnnConvolutionBackwardData";
    run_weight: Run = c"cudnnConvolutionBackwardFilter";
}

impl Functions {
    /// An error for a status that is none of success.
    pub fn check(&self, status: Status) -> Result<()> {
        if status == SUCCESS { Ok(()) } else { Err(self.failure(status)) }
    }

    #[cold]
    fn failure(&self, status: Status) -> Error {
        // SAFETY: the function returns a constant string for every number.
        let name = unsafe { CStr::from_ptr((self.describe)(status)) };
        Error::runtime(format!("cuDNN error: {}", name.to_string_lossy()))
            .hint("torch.backends.cudnn.enabled = False computes convolutions without cuDNN.")
    }
}

/// The library; `None` if it is not installed. It is loaded by the first call.
pub fn found() -> Option<&'static Functions> {
    static FOUND: OnceBox<Option<Functions>> = OnceBox::new();
    FOUND
        .get_or_init(|| Box::new(Library::find(&["libcudnn.so.9"]).and_then(|library| Functions::of(&library))))
        .as_ref()
}
