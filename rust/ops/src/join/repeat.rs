//! The same elements several times.

use rushlight_core::alloc::list;
use rushlight_core::layout::{Shape, checked_new, wrap_dim};
use rushlight_core::{DType, Device, Dims, Error, Layout, Result};

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::value::{Ints, Output, Value};
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub static REPEAT: Row = Row {
    name: "repeat",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] repeats) -> Tensor",
    doc: "A copy with the whole tensor repeated along each dimension; further `repeats` in front make new dimensions.

    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(super::mapped::repeat),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, repeats) = (args.tensor(0)?, args.ints(1)?);
            if repeats.len() < own.rank() {
                return Err(Error::runtime(
                    "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
                )
                .hint("Give a number for each dimension; 1 keeps it as it is."));
            }
            let pairs = pairs(own.sizes(), repeats);
            let sizes: Dims = pairs.iter().map(|(times, size)| times.saturating_mul(*size)).collect();
            checked_new(&sizes)?;
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, whole) = (args.tensor(0)?, &results[0]);
            let pairs = pairs(own.sizes(), args.ints(1)?);
            if whole.numel() == 0 {
                return Ok(());
            }
            // Every dimension of the result falls apart into how often and how far.
            let sizes: Dims = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
            let missing = pairs.len() - own.rank();
            let strides =
                (0..pairs.len()).flat_map(|d| [0, if d < missing { 0 } else { own.layout().strides[d - missing] }]);
            let source = Layout { sizes: sizes.clone(), strides: strides.collect(), offset: own.layout().offset };
            crate::copy::copy_views(whole, &Layout::contiguous(&sizes), own, &source)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let pairs = pairs(d.sizes(0), d.ints(1));
        let sizes: Ints = pairs.iter().flat_map(|&(times, size)| [times as i64, size as i64]).collect();
        let counts: Ints = (0..pairs.len() as i64).map(|d| 2 * d).collect();
        if counts.is_empty() {
            return d.grad();
        }
        d.grad()
            .call(&crate::view::RESHAPE, [Value::Ints(sizes)])
            .call(&crate::reduce::sum::SUM_DIM, [Value::Ints(counts)])
            .call(&crate::view::RESHAPE, [sizes_value(d.sizes(0))])
    })]),
    samples: &["t(2, 3), (2, 2)", "t(3), (2, 1, 2)", "t(2), (0,)", "t(), (3,)", "t(2, 3).t(), (1, 2)"],
    errors: &[(
        "t(2, 3), (2,)",
        "RuntimeError",
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
    )],
    reference: "np.tile(self, repeats)",
    ..Row::BASE
};

/// For each dimension of the result how often, and how far.
fn pairs(sizes: &[isize], repeats: &[i64]) -> Vec<(isize, isize)> {
    let missing = repeats.len().saturating_sub(sizes.len());
    repeats
        .iter()
        .enumerate()
        .map(|(d, &times)| (times as isize, if d < missing { 1 } else { sizes[d - missing] }))
        .collect()
}

pub static TILE: Row = Row {
    name: "tile",
    signature: "(Tensor self, int[] dims) -> Tensor",
    doc: "`repeat` that counts missing repetitions as one.

    >>> torch.tile(torch.tensor([[1], [2]]), (2,))
    tensor([[1, 1],
            [2, 2]])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let (own, dims) = (args.tensor(0)?, args.ints(1)?);
        let mut repeats = Ints::from_elem(1, own.rank().saturating_sub(dims.len()));
        repeats.extend_from_slice(dims);
        op!(REPEAT, own, repeats).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), (2,)", "t(3), (2, 2)", "t(2, 3), (1, 2, 1)"],
    errors: &[
        ("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -2: [-2]"),
        ("t(2), (2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -2: [2, -2]"),
    ],
    reference: "np.tile(self, dims)",
    ..Row::BASE
};

pub static REPEAT_INTERLEAVE: Row = Row {
    name: "repeat_interleave.Tensor",
    variants: Variants::FUNCTION,
    signature: "(Tensor repeats, *, int? output_size=None) -> Tensor",
    doc: "Every index as often as `repeats` says.

    >>> torch.repeat_interleave(torch.tensor([1, 0, 2]))
    tensor([0, 2, 2])",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Each,
    run: Run::Compose(|args| counted(args.tensor(0)?, args.optional_int(1)).map(Output::Tensor)),
    derivative: Derivative::NonDifferentiable("the result counts"),
    samples: &["torch.tensor([1, 0, 2])"],
    reference: "np.repeat(np.arange(len(repeats)), repeats)",
    ..Row::BASE
};

fn counted(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    if repeats.rank() != 1 {
        return Err(Error::runtime("repeat_interleave only accept 1D vector as repeat"));
    }
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        return Err(Error::unsupported("repeat_interleave_cpu", repeats.dtype()));
    }
    if repeats.device() == Device::Meta {
        let Some(total) = output_size else {
            return Err(Error::runtime("cannot repeat_interleave a meta tensor without output_size"));
        };
        return crate::create::empty(&[total as isize], repeats.dtype(), Device::Meta);
    }
    let times = crate::to_vec::<i64>(repeats)?;
    if times.iter().any(|&n| n < 0) {
        return Err(Error::runtime("repeats can not be negative"));
    }
    let Some(total) = times.iter().try_fold(0i64, |sum, &n| sum.checked_add(n)) else {
        return Err(Error::runtime("numel: integer multiplication overflow"));
    };
    if output_size.is_some_and(|size| size != total) {
        return Err(Error::runtime("allocated size does not match required size"));
    }
    let mut places = list(total as usize)?;
    for (at, &n) in times.iter().enumerate() {
        places.extend(std::iter::repeat_n(at as i64, n as usize));
    }
    let places = crate::from_slice(&places)?;
    crate::convert::to_dtype(&places, repeats.dtype())
}

pub static REPEAT_INTERLEAVE_BY: Row = Row {
    name: "repeat_interleave.self_Tensor",
    signature: "(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    doc: "Every slice of `dim` as often as `repeats`, one number or one for each, says; without `dim` every element.

    >>> torch.repeat_interleave(torch.tensor([5, 6]), torch.tensor([1, 2]))
    tensor([5, 6, 6])",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::EachIf(&[1]),
    run: Run::Compose(|args| {
        let (own, dim) = along(args.tensor(0)?, args.optional_int(2))?;
        let repeats = args.tensor(1)?;
        let size = own.sizes()[dim];
        let wide = if repeats.numel() == 1 && repeats.rank() <= 1 {
            op!(EXPAND, op!(crate::view::RESHAPE, repeats, sizes_value(&[1]))?, sizes_value(&[size]))?
        } else {
            repeats.clone()
        };
        if wide.rank() != 1 {
            return Err(Error::runtime("repeats must be 0-dim or 1-dim tensor"));
        }
        if wide.sizes()[0] != size {
            return Err(Error::runtime(format!(
                "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({dim}) = {size}",
                wide.sizes()[0]
            )));
        }
        let places = counted(&wide, args.optional_int(3))?;
        op!(crate::index::along::INDEX_SELECT, own, dim, places).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), torch.tensor([1, 2]), 0", "t(3), torch.tensor(2)", "t(2, 3), torch.tensor([0, 1, 2]), -1"],
    reference: "np.repeat(self, repeats, dim)",
    ..Row::BASE
};

/// The tensor and its wrapped dimension; without one the elements in one row.
fn along(own: &Tensor, dim: Option<i64>) -> Result<(Tensor, usize)> {
    match dim {
        None => Ok((op!(crate::view::flatten::FLATTEN, own)?, 0)),
        Some(dim) => {
            let own = crate::view::flatten::atleast_1d(own)?;
            let dim = wrap_dim(dim, own.rank())?;
            Ok((own, dim))
        }
    }
}

pub static REPEAT_INTERLEAVE_INT: Row = Row {
    name: "repeat_interleave.self_int",
    signature: "(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    doc: "Every slice of `dim` `repeats` times; without `dim` every element.

    >>> torch.repeat_interleave(torch.tensor([5, 6]), 2)
    tensor([5, 5, 6, 6])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let repeats = args.int(1)?;
        if repeats < 0 {
            return Err(Error::runtime("Repeats must be non-negative"));
        }
        let (own, dim) = along(args.tensor(0)?, args.optional_int(2))?;
        let mut sizes = own.sizes().clone();
        if args.optional_int(3).is_some_and(|size| (sizes[dim] as i64).checked_mul(repeats) != Some(size)) {
            return Err(Error::runtime(
                "repeat_interleave: Invalid output_size, expected ".to_owned() + &Shape(&sizes).to_string(),
            ));
        }
        sizes.insert(dim + 1, repeats as isize);
        let wide = op!(EXPAND, op!(crate::view::squeeze::UNSQUEEZE, own, dim + 1)?, sizes_value(&sizes))?;
        let plain = op!(crate::convert::CLONE, wide, "contiguous_format")?;
        op!(crate::view::flatten::FLATTEN, plain, dim, dim + 1).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), 2", "t(2, 3), 2, 1", "t(3), 0"],
    errors: &[("t(3), -1", "RuntimeError", "Repeats must be non-negative")],
    reference: "np.repeat(self, repeats, dim)",
    ..Row::BASE
};
