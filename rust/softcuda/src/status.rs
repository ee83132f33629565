//! Statuses of the driver's functions.

use std::ffi::c_int;

/// A status of the driver's interface (`CUresult`).
pub type Status = c_int;

pub const SUCCESS: Status = 0;
/// Never returned: the work waits for another process, and the function is called again.
pub const BLOCKED: Status = -1;
pub const INVALID_VALUE: Status = 1;
pub const OUT_OF_MEMORY: Status = 2;
pub const NOT_INITIALIZED: Status = 3;
pub const NO_DEVICE: Status = 100;
pub const INVALID_DEVICE: Status = 101;
pub const INVALID_IMAGE: Status = 200;
pub const INVALID_CONTEXT: Status = 201;
pub const INVALID_HANDLE: Status = 400;
pub const NOT_FOUND: Status = 500;
pub const NOT_READY: Status = 600;
pub const ILLEGAL_ADDRESS: Status = 700;
pub const ASSERT: Status = 710;
pub const ALREADY_REGISTERED: Status = 712;
pub const NOT_REGISTERED: Status = 713;
pub const MISALIGNED: Status = 716;
pub const LAUNCH_FAILED: Status = 719;
pub const CAPTURE_UNSUPPORTED: Status = 900;
pub const CAPTURE_INVALIDATED: Status = 901;
pub const CAPTURE_UNJOINED: Status = 904;
pub const CAPTURED_EVENT: Status = 907;
pub const INVALID_RESOURCE: Status = 915;
