//! Which globals a pickle may name, and the limits on its size.
//!
//! What the program itself allows, and the modules that it cannot allow, are decided in `python/rushlight/_checkpoint/allowed.py`.

use std::collections::HashSet;

use super::builtins::{Builtin, full_name};

/// The permitted uses of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It may occur as a value, such as a dtype.
    Name,
    /// It may also be called.
    Call,
}

/// Harmless names that torch's own checkpoints need.
const CALLED: &[&str] = &[
    "collections.Counter",
    "collections.OrderedDict",
    "collections.defaultdict",
    "torch.Size",
    "torch.device",
    // What torch notes of the lengths in nested tensors.
    "torch._dynamo.decorators._DimRange",
    "torch._tensor._rebuild_from_type_v2",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_nested_tensor",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_wrapper_subclass",
    "torch.nested._internal.nested_tensor._rebuild_njt",
    "torch.nn.parameter.Parameter",
    "torch.serialization._get_layout",
];

/// Types that may only be named: as the class of a tensor or the factory of a defaultdict.
const NAMED: &[&str] = &[
    "builtins.dict",
    "builtins.float",
    "builtins.int",
    "builtins.list",
    "torch.Tensor",
    "torch.UntypedStorage",
    "torch.nested._internal.nested_tensor.NestedTensor",
    "torch.per_channel_affine",
    "torch.per_channel_affine_float_qparams",
    "torch.per_channel_symmetric",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.storage.TypedStorage",
    "torch.storage.UntypedStorage",
];

const DTYPES: &[&str] = &[
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "quint8",
    "qint8",
    "qint32",
];

/// The storage classes that name a dtype, with that dtype.
pub const STORAGES: &[(&str, &str)] = &[
    ("ByteStorage", "uint8"),
    ("CharStorage", "int8"),
    ("ShortStorage", "int16"),
    ("IntStorage", "int32"),
    ("LongStorage", "int64"),
    ("HalfStorage", "float16"),
    ("FloatStorage", "float32"),
    ("DoubleStorage", "float64"),
    ("BFloat16Storage", "bfloat16"),
    ("BoolStorage", "bool"),
    ("ComplexFloatStorage", "complex64"),
    ("ComplexDoubleStorage", "complex128"),
    ("QUInt8Storage", "quint8"),
    ("QInt8Storage", "qint8"),
    ("QInt32Storage", "qint32"),
];

/// The list of allowed names.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    extra: HashSet<String>,
    anything: bool,
}

impl Policy {
    /// The default list and these `module.name`s, which may be called.
    pub fn with(extra: impl IntoIterator<Item = String>) -> Self {
        Self { extra: extra.into_iter().collect(), anything: false }
    }

    /// Accepts every name: used to list the globals of a file, never to build its object.
    pub fn inspect() -> Self {
        Self { extra: HashSet::new(), anything: true }
    }

    pub fn verdict(&self, module: &str, name: &str) -> Option<Use> {
        let full = full_name(module, name);
        if self.anything || self.extra.contains(&full) {
            return Some(Use::Call);
        }
        Self::by_default(module, name, &full)
    }

    /// Whether the default list has the name.
    pub fn knows(module: &str, name: &str) -> bool {
        Self::by_default(module, name, &full_name(module, name)).is_some()
    }

    fn by_default(module: &str, name: &str, full: &str) -> Option<Use> {
        let is_storage = || STORAGES.iter().any(|(class, _)| *class == name);
        let named = (module == "torch" && (DTYPES.contains(&name) || is_storage()))
            || Builtin::named(module, name).is_some()
            || NAMED.contains(&full);
        match CALLED.contains(&full) {
            true => Some(Use::Call),
            false => named.then_some(Use::Name),
        }
    }
}

/// Limits that valid files do not reach.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The total number of values.
    pub values: usize,
    /// Nesting of containers.
    pub depth: u32,
    /// The number of parts of one key of a dict or set, counted as often as they are reached.
    pub key_weight: u64,
    /// The work of copies and calls: a fixed number of units, and a number for each byte of the pickle.
    pub work: u64,
    pub work_per_byte: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { values: 1 << 28, depth: 500, key_weight: 1000, work: 1 << 20, work_per_byte: 64 }
    }
}
