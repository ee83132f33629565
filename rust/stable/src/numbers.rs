//! The numbers of dtypes, layouts, memory formats, types of devices and tags. A library asks for each of them by a function.

use rushlight_core::{DType, Device, Error, Result};

/// An enumeration as names and numbers.
pub struct Enumeration {
    what: &'static str,
    names: &'static [(&'static str, i32)],
}

impl Enumeration {
    pub const LAYOUT: Enumeration = Enumeration {
        what: "layout",
        names: &[
            ("strided", 0),
            ("sparse_coo", 1),
            ("sparse_csr", 2),
            ("sparse_csc", 4),
            ("sparse_bsr", 5),
            ("sparse_bsc", 6),
            ("jagged", 7),
        ],
    };
    pub const MEMORY_FORMAT: Enumeration = Enumeration {
        what: "memory format",
        names: &[("contiguous_format", 0), ("preserve_format", 1), ("channels_last", 2), ("channels_last_3d", 3)],
    };

    /// The number of a name.
    pub fn of(&self, name: &str) -> Result<i32> {
        let found = self.names.iter().find(|(own, _)| *own == name);
        found.map(|(_, number)| *number).ok_or_else(|| Error::runtime(format!("there is no {} {name}", self.what)))
    }

    /// The name of a number.
    pub fn name(&self, number: i32) -> Result<&'static str> {
        let found = self.names.iter().find(|(_, own)| *own == number);
        found.map(|(name, _)| *name).ok_or_else(|| Error::runtime(format!("there is no {} {number}", self.what)))
    }
}

/// The dtype of a number.
pub fn dtype_of(number: i32) -> Result<DType> {
    let found = DType::ALL.into_iter().find(|dtype| *dtype as i32 == number);
    found.ok_or_else(|| Error::type_(format!("there is no dtype {number} in the stable ABI")))
}

const CPU: i32 = 0;
const CUDA: i32 = 1;
const META: i32 = 14;

/// The type and the index of a device.
pub fn device_numbers(device: Device) -> Result<(i32, i32)> {
    match device {
        Device::Cpu => Ok((CPU, -1)),
        Device::Cuda(index) => Ok((CUDA, i32::from(index))),
        Device::Meta => Ok((META, -1)),
        Device::Unsupported(_) => Err(Error::runtime(format!("{device} has no number in the stable ABI"))),
    }
}

/// A type and an index as one value: the type in the upper half.
pub fn packed(kind: i32, index: i32) -> u64 {
    (u64::from(kind as u32) << 32) | u64::from(index as u32)
}

/// The device of a type and an index. An index of -1 is the current device.
pub fn device_of(kind: i32, index: i32) -> Result<Device> {
    match kind {
        CPU => Ok(Device::Cpu),
        META => Ok(Device::Meta),
        CUDA if index < 0 => Ok(Device::Cuda(rushlight_cuda::card::current())),
        CUDA => u8::try_from(index).map(Device::Cuda).map_err(|_| Error::runtime("Device index is out of range")),
        _ => Err(Error::runtime(format!("there is no type of devices {kind}"))),
    }
}

macro_rules! numbers {
    ($($name:ident = $number:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> i32 {
            $number
        }
    )*};
}

numbers! {
    aoti_torch_dtype_uint8 = DType::U8 as i32;
    aoti_torch_dtype_int8 = DType::I8 as i32;
    aoti_torch_dtype_int16 = DType::I16 as i32;
    aoti_torch_dtype_int32 = DType::I32 as i32;
    aoti_torch_dtype_int64 = DType::I64 as i32;
    aoti_torch_dtype_uint16 = DType::U16 as i32;
    aoti_torch_dtype_uint32 = DType::U32 as i32;
    aoti_torch_dtype_uint64 = DType::U64 as i32;
    aoti_torch_dtype_bool = DType::Bool as i32;
    aoti_torch_dtype_float16 = DType::F16 as i32;
    aoti_torch_dtype_bfloat16 = DType::BF16 as i32;
    aoti_torch_dtype_float32 = DType::F32 as i32;
    aoti_torch_dtype_float64 = DType::F64 as i32;
    aoti_torch_dtype_complex32 = DType::C32 as i32;
    aoti_torch_dtype_complex64 = DType::C64 as i32;
    aoti_torch_dtype_complex128 = DType::C128 as i32;
    aoti_torch_dtype_float8_e5m2 = DType::F8E5M2 as i32;
    aoti_torch_dtype_float8_e4m3fn = DType::F8E4M3Fn as i32;
    aoti_torch_dtype_float8_e5m2fnuz = DType::F8E5M2Fnuz as i32;
    aoti_torch_dtype_float8_e4m3fnuz = DType::F8E4M3Fnuz as i32;
    torch_dtype_float8_e8m0fnu = DType::F8E8M0Fnu as i32;
    // There are no tensors of this dtype.
    torch_dtype_float4_e2m1fn_x2 = -1;

    aoti_torch_layout_strided = 0;
    aoti_torch_layout_sparse_coo = 1;
    aoti_torch_layout_sparse_csr = 2;
    aoti_torch_layout__mkldnn = 3;
    aoti_torch_layout_sparse_csc = 4;
    aoti_torch_layout_sparse_bsr = 5;
    aoti_torch_layout_sparse_bsc = 6;
    aoti_torch_layout_jagged = 7;

    aoti_torch_memory_format_contiguous_format = 0;
    aoti_torch_memory_format_preserve_format = 1;
    aoti_torch_memory_format_channels_last = 2;
    aoti_torch_memory_format_channels_last_3d = 3;

    aoti_torch_device_type_cpu = CPU;
    aoti_torch_device_type_cuda = CUDA;
    aoti_torch_device_type_xpu = 12;
    aoti_torch_device_type_mps = 13;
    aoti_torch_device_type_meta = META;
    aoti_torch_device_type_privateuse1 = 20;

    // Tags have no effect here; they only have to differ.
    torch_tag_core = 0;
    torch_tag_cudagraph_unsafe = 1;
    torch_tag_data_dependent_output = 2;
    torch_tag_dynamic_output_shape = 3;
    torch_tag_flexible_layout = 4;
    torch_tag_generated = 5;
    torch_tag_inplace_view = 6;
    torch_tag_maybe_aliasing_or_mutating = 7;
    torch_tag_needs_contiguous_strides = 8;
    torch_tag_needs_exact_strides = 9;
    torch_tag_needs_fixed_stride_order = 10;
    torch_tag_nondeterministic_bitwise = 11;
    torch_tag_nondeterministic_seeded = 12;
    torch_tag_out_variant = 13;
    torch_tag_pointwise = 14;
    torch_tag_pt2_compliant_tag = 15;
    torch_tag_reduction = 16;
    torch_tag_view_copy = 17;
}

/// The version of the ABI: torch 2.13.
#[unsafe(no_mangle)]
pub extern "C" fn aoti_torch_abi_version() -> u64 {
    (2 << 56) | (13 << 48)
}

/// The bytes of an element; 0 for a number of no dtype.
#[unsafe(no_mangle)]
pub extern "C" fn aoti_torch_dtype_element_size(dtype: i32) -> usize {
    dtype_of(dtype).map_or(0, DType::size)
}
