//! Reversed, rolled and rotated elements.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{DimSet, product, wrap_dim};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::operator::{
    BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves, TensorSpec, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, one_result};
use rushlight_dispatch::{copy, op};

use crate::view::RESHAPE;

#[operator]
pub static FLIP: Operator = Operator {
    name: "flip",
    signature: "(Tensor self, int[] dims) -> Tensor",
    doc: "A copy with the elements in reverse along `dims`. (`x[::-1]` is a view.)

    >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [1])
    tensor([[2, 1],
            [4, 3]])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Along(DIMS),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            DimSet::of(args.ints(DIMS)?, input.rank())?;
            let layout =
                Layout { sizes: input.sizes().clone(), strides: input.layout().preserved_strides(), offset: 0 };
            Ok(vec![TensorSpec { layout, dtype: input.dtype(), device: input.device() }])
        },
        |args, results| {
            let input = args.tensor(INPUT)?;
            let mut layout = input.layout().clone();
            if input.rank() > 0 {
                for &dim in args.ints(DIMS)? {
                    layout = layout.flip(wrap_dim(dim, input.rank())?);
                }
            }
            copy::copy_views(&results[0], results[0].layout(), input, &layout)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&FLIP, [Value::Ints(d.ints(DIMS).into())])
    })]),
    samples: &["t(2, 3), (0,)", "t(2, 3, 4), (0, -1)", "t(2, 3).t(), (0,)", "t(0, 3), (0,)", "t(2), ()"],
    errors: &[
        ("t(2, 3), (0, 0)", "RuntimeError", "dim 0 appears multiple times in the list of dims"),
        ("t(2, 3), (5,)", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    ],
    reference: "np.flip(self, dims)",
    ..Operator::BASE
};

macro_rules! flips {
    ($($op:ident $name:literal $least:literal $dim:literal $reference:literal $sample:literal $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            signature: "(Tensor self) -> Tensor",
            doc: $doc,
            dtypes: DTypes::ALL,
            implementation: Implementation::CompositeImplicit(|args| {
                let input = args.tensor(INPUT)?;
                if input.rank() < $least {
                    return Err(Error::runtime(concat!("Input must be >= ", $least, "-d.")));
                }
                op!(FLIP, input, Ints::from_slice(&[$dim])).map(Output::Tensor)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &[$sample],
            reference: $reference,
            ..Operator::BASE
        };
    )*};
}

flips! {
    FLIPLR "fliplr" 2 1 "np.fliplr(self)" "t(2, 3)"
    "A copy with the columns in reverse.

    >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])";
    FLIPUD "flipud" 1 0 "np.flipud(self)" "t(2, 3)"
    "A copy with the rows in reverse.

    >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])";
}

#[operator]
pub static ROLL: Operator = Operator {
    name: "roll",
    signature: "(Tensor self, int[1] shifts, int[1]? dims=[]) -> Tensor",
    doc: "A copy with the elements rolled by `shifts` along `dims`; elements past the end continue at the beginning.

Without `dims` the flattened tensor is rolled.

    >>> torch.roll(torch.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(batched_roll),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let (shifts, dims) = (args.ints(SHIFTS)?, args.optional_ints(DIMS).unwrap_or_default());
            if shifts.is_empty() {
                return Err(Error::runtime("`shifts` required"));
            }
            if shifts.len() != dims.len() && !(dims.is_empty() && shifts.len() == 1) {
                return Err(Error::runtime(format!(
                    "shifts and dimensions must align. shifts: {}, dims:{}",
                    shifts.len(),
                    dims.len()
                )));
            }
            // torch copies a tensor without elements before it reads the dimensions.
            if input.numel() == 0 && !dims.is_empty() {
                return Ok(vec![TensorSpec {
                    layout: Layout { offset: 0, ..input.layout().clone() },
                    ..TensorSpec::like(input)
                }]);
            }
            for &dim in dims {
                if input.rank() == 0 {
                    return Err(Error::index(format!("Dimension specified as {dim} but tensor has no dimensions")));
                }
                wrap_dim(dim, input.rank())?;
            }
            let spec = TensorSpec::new(input.sizes(), input.dtype(), input);
            // Without dimensions the tensor is flattened. A shift by whole rounds is a row-major copy.
            let plain = match (dims, shifts) {
                ([], _) => true,
                (&[dim], &[shift]) => shift % (input.sizes()[wrap_dim(dim, input.rank())?].max(1) as i64) == 0,
                _ => false,
            };
            Ok(vec![if plain { spec } else { spec.formatted(input.layout()) }])
        },
        |args, results| {
            let input = args.tensor(INPUT)?;
            if input.numel() == 0 {
                return Ok(());
            }
            let (shifts, dims) = (args.ints(SHIFTS)?, args.optional_ints(DIMS).unwrap_or_default());
            if dims.is_empty() {
                let flat = op!(crate::view::RESHAPE, input.detach(), sizes_value(&[-1]))?;
                let row = Layout::contiguous(flat.sizes());
                return pieces(&results[0], row, &flat, flat.layout().clone(), &[(0, shifts[0] as isize)]);
            }
            let mut moves: Vec<(usize, isize)> = Vec::new();
            for (&shift, &dim) in shifts.iter().zip(dims) {
                let dim = wrap_dim(dim, input.rank())?;
                let shift = within(shift, input.sizes()[dim]);
                match moves.iter_mut().find(|(known, _)| *known == dim) {
                    Some((_, sum)) => *sum = (*sum + shift) % input.sizes()[dim].max(1),
                    None => moves.push((dim, shift)),
                }
            }
            pieces(&results[0], results[0].layout().clone(), input, input.layout().clone(), &moves)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let (own, dims) = (d.sizes(INPUT), d.ints(DIMS));
        let size = |at: usize| match dims.get(at) {
            Some(&dim) => own[wrap_dim(dim, own.len()).unwrap_or(0)],
            None => product(own) as isize,
        };
        let back: Ints =
            d.ints(SHIFTS).iter().enumerate().map(|(at, &shift)| -within(shift, size(at)) as i64).collect();
        d.grad().call(&ROLL, [Value::Ints(back), Value::Ints(dims.into())])
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), (1, -1), (0, 1)", "t(5), 7, 0", "t(3, 4).t(), 2, -1", "t(0, 3), 1, 0"],
    errors: &[("t(2, 3), (1, 2)", "RuntimeError", "shifts and dimensions must align. shifts: 2, dims:0")],
    reference: "np.roll(self, shifts, None if dims == [] else dims)",
    ..Operator::BASE
};

/// A shift reduced modulo the size.
fn within(shift: i64, size: isize) -> isize {
    (shift as isize).rem_euclid(size.max(1))
}

/// Copies the rolled parts: there are two along each rolled dimension.
fn pieces(to: &Tensor, target: Layout, from: &Tensor, source: Layout, moves: &[(usize, isize)]) -> Result<()> {
    let [(dim, shift), rest @ ..] = moves else {
        return copy::copy_views(to, &target, from, &source);
    };
    let size = source.sizes[*dim];
    if size == 0 {
        return Ok(());
    }
    let shift = shift.rem_euclid(size);
    for (at, start, length) in [(shift, 0, size - shift), (0, size - shift, shift)] {
        if length > 0 {
            pieces(to, target.slice(*dim, at, length, 1), from, source.slice(*dim, start, length, 1), rest)?;
        }
    }
    Ok(())
}

#[operator]
pub static ROT90: Operator = Operator {
    name: "rot90",
    node: "Rot90Backward0",
    signature: "(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
    doc: "The tensor rotated by `k` times 90 degrees in the plane of two dimensions, from the first towards the second.

    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let dims = args.ints(DIMS)?;
        let &[first, second] = dims else {
            return Err(Error::runtime(format!("expected total rotation dims == 2, but got dims = {}", dims.len())));
        };
        if input.rank() < 2 {
            return Err(Error::runtime(format!("expected total dims >= 2, but got total dims = {}", input.rank())));
        }
        if first == second || first.abs_diff(second) == input.rank() as u64 {
            return Err(Error::runtime(format!(
                "expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}"
            )));
        }
        let (a, b) = (wrap_dim(first, input.rank())? as i64, wrap_dim(second, input.rank())? as i64);
        let flip = |of: &Tensor, dims: &[i64]| op!(FLIP, of, Ints::from_slice(dims));
        // The other order would return a view.
        let exchanged = || op!(crate::view::transpose::TRANSPOSE, input, a, b);
        let turned = match args.int(K)?.rem_euclid(4) {
            1 => flip(&exchanged()?, &[a]),
            2 => flip(input, &[a, b]),
            3 => flip(&exchanged()?, &[b]),
            _ => op!(crate::convert::CLONE, input, "contiguous_format"),
        };
        turned.map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 2", "t(2, 3, 4), -1, (1, 2)", "t(2, 3), 0"],
    errors: &[(
        "t(2, 3), 1, (0, 0)",
        "RuntimeError",
        "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0",
    )],
    reference: "np.rot90(self, k, dims)",
    ..Operator::BASE
};

fn batched_roll(batch: &BatchedCall) -> RuleResult {
    use ROLL::*;

    let own = batch.args.tensor(INPUT)?;
    let (shifts, dims) = (crate::reduce::dims(batch.args, SHIFTS), crate::reduce::dims(batch.args, DIMS));
    if own.rank() == 0 || batch.size == 0 {
        return Ok(None);
    }
    if dims.is_empty() {
        let shown = batch.tensor(INPUT)?;
        let lines = op!(RESHAPE, &shown, sizes_value(&[batch.size, -1]))?;
        return one_result(op!(RESHAPE, op!(ROLL, lines, shifts, &[1i64][..])?, sizes_value(shown.sizes())));
    }
    let moved = dims.iter().map(|&dim| wrap_dim(dim, own.rank()).map(|dim| dim as i64 + 1));
    one_result(op!(ROLL, batch.tensor(INPUT)?, shifts, moved.collect::<Result<Ints>>()?))
}
