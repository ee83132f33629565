//! The functions of cuDNN 9 that are called, and what they return.
//!
//! Statuses, algorithms and kinds of arithmetic are numbers here, because a later version of the library may have more of them.

use std::ffi::{CStr, c_char, c_float, c_int, c_void};

use rushlight_core::{Error, Result};

use crate::library::functions;

pub type Status = c_int;
pub const SUCCESS: Status = 0;

/// A handle, or the description of a tensor, of a convolution, of a recurrent network, or of what belongs to them.
pub type Object = *mut c_void;

/// An algorithm and what is known about it (`cudnnConvolutionFwdAlgoPerf_t` and its two siblings).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Performance {
    pub algorithm: c_int,
    pub status: Status,
    pub time: c_float,
    pub workspace: usize,
    pub determinism: c_int,
    pub math: c_int,
    pub reserved: [c_int; 3],
}

impl Performance {
    pub const EMPTY: Performance =
        Performance { algorithm: 0, status: 0, time: 0.0, workspace: 0, determinism: 0, math: 0, reserved: [0; 3] };
}

functions! {
    /// The functions. The three that convolve, and what belongs to them, have the same parameters: a handle, two operands and
    /// a result, in this order. They are in the order of `Computed`.
    pub struct Functions from &["libcudnn.so.9"];
    version = c"cudnnGetVersion" () -> usize;
    describe = c"cudnnGetErrorString" (Status) -> *const c_char;
    create = c"cudnnCreate" (*mut Object);
    set_stream = c"cudnnSetStream" (Object, *mut c_void);
    create_tensor = c"cudnnCreateTensorDescriptor" (*mut Object);
    set_tensor = c"cudnnSetTensorNdDescriptor" (Object, c_int, c_int, *const c_int, *const c_int);
    destroy_tensor = c"cudnnDestroyTensorDescriptor" (Object);
    create_weight = c"cudnnCreateFilterDescriptor" (*mut Object);
    set_weight = c"cudnnSetFilterNdDescriptor" (Object, c_int, c_int, c_int, *const c_int);
    destroy_weight = c"cudnnDestroyFilterDescriptor" (Object);
    create_convolution = c"cudnnCreateConvolutionDescriptor" (*mut Object);
    set_convolution = c"cudnnSetConvolutionNdDescriptor" (
        Object, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int,
    );
    set_groups = c"cudnnSetConvolutionGroupCount" (Object, c_int);
    set_math = c"cudnnSetConvolutionMathType" (Object, c_int);
    destroy_convolution = c"cudnnDestroyConvolutionDescriptor" (Object);
    create_dropout = c"cudnnCreateDropoutDescriptor" (*mut Object);
    set_dropout = c"cudnnSetDropoutDescriptor" (Object, Object, c_float, *mut c_void, usize, u64);
    destroy_dropout = c"cudnnDestroyDropoutDescriptor" (Object);
    create_network = c"cudnnCreateRNNDescriptor" (*mut Object);
    set_network = c"cudnnSetRNNDescriptor_v8" (
        Object, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int, i32, i32, i32, i32, Object, u32,
    );
    destroy_network = c"cudnnDestroyRNNDescriptor" (Object);
    create_sequences = c"cudnnCreateRNNDataDescriptor" (*mut Object);
    set_sequences = c"cudnnSetRNNDataDescriptor" (
        Object, c_int, c_int, c_int, c_int, c_int, *const c_int, *mut c_void,
    );
    destroy_sequences = c"cudnnDestroyRNNDataDescriptor" (Object);
    size_of_weights = c"cudnnGetRNNWeightSpaceSize" (Object, Object, *mut usize);
    place_of_weight = c"cudnnGetRNNWeightParams" (
        Object, Object, i32, usize, *const c_void, i32, Object, *mut *mut c_void, Object, *mut *mut c_void,
    );
    sizes_of_spaces = c"cudnnGetRNNTempSpaceSizes" (Object, Object, c_int, Object, *mut usize, *mut usize);
    run_network = c"cudnnRNNForward" (
        Object, Object, c_int, *const i32, Object, *const c_void, Object, *mut c_void, Object, *const c_void, *mut c_void,
        Object, *const c_void, *mut c_void, usize, *const c_void, usize, *mut c_void, usize, *mut c_void,
    );
    gradients_of_data = c"cudnnRNNBackwardData_v8" (
        Object, Object, *const i32, Object, *const c_void, *const c_void, Object, *mut c_void, Object, *const c_void,
        *const c_void, *mut c_void, Object, *const c_void, *const c_void, *mut c_void, usize, *const c_void, usize,
        *mut c_void, usize, *mut c_void,
    );
    gradients_of_weights = c"cudnnRNNBackwardWeights_v8" (
        Object, Object, c_int, *const i32, Object, *const c_void, Object, *const c_void, Object, *const c_void, usize,
        *mut c_void, usize, *mut c_void, usize, *mut c_void,
    );
    [
        c"cudnnGetConvolutionForwardAlgorithm_v7", c"cudnnGetConvolutionBackwardDataAlgorithm_v7",
        c"cudnnGetConvolutionBackwardFilterAlgorithm_v7"
    ] as recommend (Object, Object, Object, Object, Object, c_int, *mut c_int, *mut Performance);
    [
        c"cudnnFindConvolutionForwardAlgorithmEx", c"cudnnFindConvolutionBackwardDataAlgorithmEx",
        c"cudnnFindConvolutionBackwardFilterAlgorithmEx"
    ] as measure (
        Object, Object, *const c_void, Object, *const c_void, Object, Object, *mut c_void, c_int, *mut c_int, *mut Performance,
        *mut c_void, usize,
    );
    [
        c"cudnnGetConvolutionForwardWorkspaceSize", c"cudnnGetConvolutionBackwardDataWorkspaceSize",
        c"cudnnGetConvolutionBackwardFilterWorkspaceSize"
    ] as size (Object, Object, Object, Object, Object, c_int, *mut usize);
    [c"cudnnConvolutionForward", c"cudnnConvolutionBackwardData", c"cudnnConvolutionBackwardFilter"] as run (
        Object, *const c_void, Object, *const c_void, Object, *const c_void, Object, c_int, *mut c_void, usize,
        *const c_void, Object, *mut c_void,
    );
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
            .hint("torch.backends.cudnn.enabled = False computes without cuDNN.")
    }
}
