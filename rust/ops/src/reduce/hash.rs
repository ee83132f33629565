//! A hash of a tensor's elements.

use rushlight_core::{Bool, DType, Error};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_dispatch::operator::{
    Accepts, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Variants, operator,
};

use super::ReduceDims;

#[allow(clippy::useless_conversion)] // one line stands for several types
pub const HASHES: Folds = folds! {
    "hash";
    for<S> [u8, i8, i16, i32, i64 => u64] (0; |a, x| a ^ i64::from(x) as u64; |a, b| a ^ b; |a, _n| a);
    for<S> [f32, f64 => u64] (0; |a, x| a ^ f64::from(x).to_bits(); |a, b| a ^ b; |a, _n| a);
    for<S> [Bool => u64] (0; |a, x| a ^ u64::from(x.get()); |a, b| a ^ b; |a, _n| a)
};

#[operator]
pub static HASH_TENSOR: Operator = Operator {
    name: "hash_tensor",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    doc: "The exclusive or of the elements along `dim` (all dimensions by default), as 64-bit integers.

Floats count as float64, integers as int64. The order of elements has no effect, and two equal elements cancel. `mode` must be 0.

    >>> torch.hash_tensor(torch.tensor([5, 3]))
    tensor(6, dtype=torch.uint64)",
    out: Out::new(Accepts::Same, &["Expected result to be of dtype uint64, but got {Out}"]).known(|_| Some(DType::U64)),
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    kernel_name: "xor_sum_cpu",
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let over = ReduceDims::of(args, DIM, KEEPDIM)?;
            if input.numel() == 0 {
                if super::dims(args, DIM).is_empty() {
                    return Err(Error::runtime(
                        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
                    ));
                }
                if let Some(dim) = (0..input.rank()).find(|&dim| over.has(dim) && input.sizes()[dim] == 0) {
                    return Err(Error::index(format!(
                        "hash_tensor: Expected reduction dim {dim} to have non-zero size."
                    )));
                }
            }
            if args.int(MODE)? != 0 {
                return Err(Error::runtime(format!("Unknown hash_tensor mode: {}", args.int(MODE)?)).hint("mode must be 0 (exclusive or of all bits)."));
            }
            Ok(vec![over.spec(args, DType::U64)?])
        },
        |args, results| {
            super::fold(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, HASHES, args.tensor(INPUT)?.dtype().compute(), &[])
        },
    )),
    derivative: Derivative::NonDifferentiable("its result is a hash of bits"),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), keepdim=True", "t()"],
    errors: &[
        ("t(2), mode=1", "RuntimeError", "Unknown hash_tensor mode: 1"),
        ("t(0, 3), 0", "IndexError", "hash_tensor: Expected reduction dim 0 to have non-zero size."),
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
    ],
    reference: "np.bitwise_xor.reduce(self.astype(np.float64 if self.dtype.kind == 'f' else np.int64).view(np.uint64), axis=tuple(np.atleast_1d(dim)) or None, keepdims=keepdim)",
    ..Operator::BASE
};
