//! What interpolation and sampling come down to: weighted sums of a few elements of each channel, which are each other's
//! derivatives in any order.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::nn::interpolate::{Sizes, meet, mix, spread};

use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::{plain, settle, workplace};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::Value;

#[cold]
fn misfit(tensors: &[&Tensor]) -> Error {
    let sizes: Vec<String> = tensors.iter().map(|tensor| Shape(tensor.sizes()).to_string()).collect();
    Error::runtime(format!("operands of {} do not fit together", sizes.join(", ")))
}

/// The sizes that operands agree on: `channels (N, C, A or P)`, indices `(N, P, K)`.
fn sizes(channels: &Tensor, indices: &Tensor, area: isize) -> Result<Sizes> {
    let ([n, c, _], [items, places, taps]) = (&channels.sizes()[..], &indices.sizes()[..]) else {
        return Err(misfit(&[channels, indices]));
    };
    if n != items || indices.dtype() != DType::I64 || area < 0 {
        return Err(misfit(&[channels, indices]));
    }
    Ok(Sizes {
        items: *n as usize,
        channels: *c as usize,
        area: area as usize,
        places: *places as usize,
        taps: *taps as usize,
    })
}

fn last(tensor: &Tensor) -> isize {
    tensor.sizes().last().copied().unwrap_or(-1)
}

type Kernel3 = unsafe fn(DType, Sizes, *const u8, *const u8, *const i64, *mut u8) -> Result<()>;

/// Runs a kernel on two operands and the indices, all row-major, in a dtype that it computes in.
fn run(a: &Tensor, b: &Tensor, indices: &Tensor, sizes: Sizes, result: &Tensor, kernel: Kernel3) -> Result<()> {
    let compute = result.dtype().compute();
    let (a, b, indices) = (plain(a, compute)?, plain(b, compute)?, plain(indices, DType::I64)?);
    let place = workplace(result, compute)?;
    {
        let pins = (a.storage().pin()?, b.storage().pin()?, indices.storage().pin()?, place.storage().pin()?);
        let first = |pin: &rushlight_core::storage::Pin, tensor: &Tensor| {
            pin.as_ptr().wrapping_offset(tensor.layout().offset * tensor.dtype().size() as isize)
        };
        let at = first(&pins.2, &indices).cast_const().cast::<i64>();
        // SAFETY: row-major operands, pinned, of the sizes that were inferred; the kernel checks the indices.
        unsafe { kernel(compute, sizes, first(&pins.0, &a), first(&pins.1, &b), at, first(&pins.3, &place))? };
    }
    settle(&place, result)
}

fn kept(d: &crate::derive::Derive, place: usize) -> Value<'static> {
    match d.input(place).done() {
        Ok(tensor) => tensor.into(),
        Err(_) => Value::None,
    }
}

pub static MIX: Row = Row {
    name: "_mix",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, Tensor weights) -> Tensor",
    doc: "Sums over `k` of `weights[n, p, k] * self[n, c, indices[n, p, k]]`; an index outside of the channel counts for nothing.

    >>> torch._mix(torch.tensor([[[5., 6., 7.]]]), torch.tensor([[[0, 2], [1, -1]]]), torch.ones(1, 2, 2))
    tensor([[[12.,  6.]]])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Items,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, indices, weights) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            sizes(own, indices, last(own))?;
            if indices.sizes() != weights.sizes() {
                return Err(misfit(&[own, indices, weights]));
            }
            Ok(vec![Spec::new(&[own.sizes()[0], own.sizes()[1], indices.sizes()[1]], own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, indices) = (args.tensor(0)?, args.tensor(1)?);
            let sizes = sizes(own, indices, last(own))?;
            // SAFETY: `run`'s promise is the kernel's.
            run(own, args.tensor(2)?, indices, sizes, &results[0], |dtype, s, x, w, at, out| unsafe {
                mix(dtype, s, x, at, w, out)
            })
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1).union(Saves::input(2)), |d| {
            d.grad().call(&SPREAD, [kept(d, 1), kept(d, 2), Value::from(d.sizes(0)[2] as i64)])
        }),
        formula(2, Saves::input(0).union(Saves::input(1)), |d| d.grad().call(&MEET, [kept(d, 0), kept(d, 1)])),
    ]),
    samples: &["t(2, 3, 5), i(5, 2, 4, 2), t(2, 4, 2)", "t(1, 2, 2), torch.tensor([[[0, 7], [-1, 1]]]), t(1, 2, 2)"],
    reference: "",
    ..Row::BASE
};

pub static SPREAD: Row = Row {
    name: "_mix_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, Tensor weights, int area) -> Tensor",
    doc: "Channels of `area` zeros, with `weights[n, p, k] * self[n, c, p]` added at `indices[n, p, k]`.

    >>> torch._mix_spread(torch.tensor([[[2., 3.]]]), torch.tensor([[[0], [0]]]), torch.ones(1, 2, 1), 2)
    tensor([[[5., 0.]]])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Items,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, indices, weights) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            let area = args.int(3)? as isize;
            let s = sizes(own, indices, area)?;
            if indices.sizes() != weights.sizes() || last(own) != s.places as isize {
                return Err(misfit(&[own, indices, weights]));
            }
            Ok(vec![Spec::new(&[own.sizes()[0], own.sizes()[1], area], own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, indices) = (args.tensor(0)?, args.tensor(1)?);
            let sizes = sizes(own, indices, args.int(3)? as isize)?;
            // SAFETY: `run`'s promise is the kernel's.
            run(own, args.tensor(2)?, indices, sizes, &results[0], |dtype, s, values, w, at, out| unsafe {
                spread(dtype, s, values, at, w, out)
            })
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1).union(Saves::input(2)), |d| d.grad().call(&MIX, [kept(d, 1), kept(d, 2)])),
        formula(2, Saves::input(0).union(Saves::input(1)), |d| {
            d.input(0).call(&MEET, [d.grad().done().map_or(Value::None, Value::from), kept(d, 1)])
        }),
    ]),
    samples: &["t(2, 3, 4), i(5, 2, 4, 2), t(2, 4, 2), 5"],
    reference: "",
    ..Row::BASE
};

pub static MEET: Row = Row {
    name: "_mix_meet",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor other, Tensor indices) -> Tensor",
    doc: "Sums over the channels of `self[n, c, p] * other[n, c, indices[n, p, k]]`.

    >>> torch._mix_meet(torch.tensor([[[2., 3.]]]), torch.tensor([[[5., 6., 7.]]]), torch.tensor([[[0, 2], [1, -1]]]))
    tensor([[[10., 14.],
             [18.,  0.]]])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Items,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, other, indices) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            let s = sizes(own, indices, last(other))?;
            if other.rank() != 3 || other.sizes()[..2] != own.sizes()[..2] || last(own) != s.places as isize {
                return Err(misfit(&[own, other, indices]));
            }
            Ok(vec![Spec::new(indices.sizes(), own.dtype(), own)])
        },
        cpu: |args, results| {
            let (own, other, indices) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
            let sizes = sizes(own, indices, last(other))?;
            // SAFETY: `run`'s promise is the kernel's.
            run(own, other, indices, sizes, &results[0], |dtype, s, values, x, at, out| unsafe {
                meet(dtype, s, values, x, at, out)
            })
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1).union(Saves::input(2)), |d| -> Expr {
            d.input(1).call(&MIX, [kept(d, 2), d.grad().done().map_or(Value::None, Value::from)])
        }),
        formula(1, Saves::input(0).union(Saves::input(2)), |d| -> Expr {
            let grad = d.grad().done().map_or(Value::None, Value::from);
            d.input(0).call(&SPREAD, [kept(d, 2), grad, Value::from(d.sizes(1)[2] as i64)])
        }),
    ]),
    samples: &["t(2, 3, 4), t(2, 3, 5), i(5, 2, 4, 2)"],
    reference: "",
    ..Row::BASE
};
