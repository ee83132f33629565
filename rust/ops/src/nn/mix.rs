//! The basis of interpolation and sampling: weighted sums of a few elements of each channel, which are each other's
//! derivatives of any order.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_cpu::nn::mix::{self as cpu, Sizes};
use rushlight_cuda::mix::{self, Mix};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle, workplace};
use rushlight_dispatch::operator::{
    BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Value};

use crate::held::Held;
use crate::order::on_cuda::places;

#[cold]
fn shape_error(tensors: &[&Tensor]) -> Error {
    let sizes: Vec<String> = tensors.iter().map(|tensor| Shape(tensor.sizes()).to_string()).collect();
    Error::runtime(format!("operands of {} do not fit together", sizes.join(", ")))
}

/// The common sizes of the operands: `channels (N, C, A or P)`, indices `(N, P, K)`.
fn sizes(channels: &Tensor, indices: &Tensor, area: isize) -> Result<Sizes> {
    let ([n, c, _], [items, places, taps]) = (&channels.sizes()[..], &indices.sizes()[..]) else {
        return Err(shape_error(&[channels, indices]));
    };
    if n != items || indices.dtype() != DType::I64 || area < 0 {
        return Err(shape_error(&[channels, indices]));
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

/// Runs a kernel on two operands and the indices, all row-major, in a dtype that it supports.
fn run(a: &Tensor, b: &Tensor, indices: &Tensor, sizes: Sizes, result: &Tensor, kernel: Kernel3) -> Result<()> {
    let compute = result.dtype().compute();
    let (a, b, indices) = (plain(a, compute)?, plain(b, compute)?, plain(indices, DType::I64)?);
    let place = workplace(result, compute)?;
    {
        let pins = (a.storage().pin()?, b.storage().pin()?, indices.storage().pin()?, place.storage().pin()?);
        let first =
            |pin: &rushlight_core::storage::Pin, tensor: &Tensor| pin.as_ptr().wrapping_offset(tensor.first_byte());
        let at = first(&pins.2, &indices).cast_const().cast::<i64>();
        // SAFETY: row-major operands, pinned, of the sizes that were inferred; the kernel checks the indices.
        unsafe { kernel(compute, sizes, first(&pins.0, &a), first(&pins.1, &b), at, first(&pins.3, &place))? };
    }
    settle(&place, result)
}

/// Runs a form of the sum on a CUDA device. The operands are those of the form, and the indices; all become row-major.
fn on_cuda(
    operands: [&Tensor; 2],
    indices: &Tensor,
    sizes: Sizes,
    result: &Tensor,
    form: fn([u64; 2], u64, u64) -> Mix,
) -> Result<()> {
    if result.numel() == 0 {
        return Ok(());
    }
    let dtype = result.dtype();
    let (a, b, indices) = (plain(operands[0], dtype)?, plain(operands[1], dtype)?, plain(indices, DType::I64)?);
    let place = plain_workplace(result, dtype)?;
    let taps = Layout {
        offset: indices.layout().offset,
        ..Layout::contiguous(&[indices.sizes()[0], (sizes.places * sizes.taps) as isize])
    };
    // Only the sums over taps read their order.
    let order = match form([0; 2], 0, 0) {
        Mix::Spread { .. } => Some(places(&Tensor::view_of(&indices, taps), 1, false)?),
        _ => None,
    };
    let mut held = Held::on(&place)?;
    let (from, at, to) = (held.addresses([&a, &b])?, held.address(&indices)?, held.address(&place)?);
    let order = held.optional(order.as_ref())?;
    let [items, channels, area] = [sizes.items, sizes.channels, sizes.area].map(|size| size as u64);
    let sizes = mix::MixSizes { items, channels, area, places: sizes.places as u64, taps: sizes.taps as u64 };
    // SAFETY: row-major operands of the sizes that were inferred, held for the stream; the kernels check the indices.
    unsafe { mix::mix(held.card, held.stream, dtype, form(from, at, order), to, sizes)? };
    settle(&place, result)
}

fn kept(d: &BackwardContext, arg: Arg) -> Value<'static> {
    match d.input(arg).done() {
        Ok(tensor) => tensor.into(),
        Err(_) => Value::None,
    }
}

#[operator]
pub static MIX: Operator = Operator {
    name: "_mix",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, Tensor weights) -> Tensor",
    doc: "Sums over `k` of `weights[n, p, k] * self[n, c, indices[n, p, k]]`; an index outside of the channel contributes zero.

    >>> torch._mix(torch.tensor([[[5., 6., 7.]]]), torch.tensor([[[0, 2], [1, -1]]]), torch.ones(1, 2, 2))
    tensor([[[12.,  6.]]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, indices, weights) = (args.tensor(INPUT)?, args.tensor(INDICES)?, args.tensor(WEIGHTS)?);
            sizes(input, indices, last(input))?;
            if indices.sizes() != weights.sizes() {
                return Err(shape_error(&[input, indices, weights]));
            }
            Ok(vec![TensorSpec::new(&[input.sizes()[0], input.sizes()[1], indices.sizes()[1]], input.dtype(), input)])
        },
        cpu: |args, results| {
            let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, last(input))?;
            // SAFETY: `run` upholds the kernel's contract.
            run(input, args.tensor(WEIGHTS)?, indices, sizes, &results[0], |dtype, s, x, w, at, out| unsafe {
                cpu::mix(dtype, s, x, at, w, out)
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, last(input))?;
            on_cuda([input, args.tensor(WEIGHTS)?], indices, sizes, &results[0], |[planes, weights], indices, _| {
                Mix::At { planes, indices, weights }
            })
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDICES).union(Saves::input(WEIGHTS)), |d| {
            d.grad().call(&SPREAD, [kept(d, INDICES), kept(d, WEIGHTS), Value::from(d.sizes(INPUT)[2] as i64)])
        }),
        formula(WEIGHTS, Saves::input(INPUT).union(Saves::input(INDICES)), |d| d.grad().call(&MEET, [kept(d, INPUT), kept(d, INDICES)])),
    ]),
    samples: &["t(2, 3, 5), i(5, 2, 4, 2), t(2, 4, 2)", "t(1, 2, 2), torch.tensor([[[0, 7], [-1, 1]]]), t(1, 2, 2)"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static SPREAD: Operator = Operator {
    name: "_mix_spread",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor indices, Tensor weights, int area) -> Tensor",
    doc: "Channels of `area` zeros, with `weights[n, p, k] * self[n, c, p]` added at `indices[n, p, k]`.

    >>> torch._mix_spread(torch.tensor([[[2., 3.]]]), torch.tensor([[[0], [0]]]), torch.ones(1, 2, 1), 2)
    tensor([[[5., 0.]]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, indices, weights) = (args.tensor(INPUT)?, args.tensor(INDICES)?, args.tensor(WEIGHTS)?);
            let area = args.int(AREA)? as isize;
            let s = sizes(input, indices, area)?;
            if indices.sizes() != weights.sizes() || last(input) != s.places as isize {
                return Err(shape_error(&[input, indices, weights]));
            }
            Ok(vec![TensorSpec::new(&[input.sizes()[0], input.sizes()[1], area], input.dtype(), input)])
        },
        cpu: |args, results| {
            let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, args.int(AREA)? as isize)?;
            // SAFETY: `run` upholds the kernel's contract.
            run(input, args.tensor(WEIGHTS)?, indices, sizes, &results[0], |dtype, s, values, w, at, out| unsafe {
                cpu::spread(dtype, s, values, at, w, out)
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let (input, indices) = (args.tensor(INPUT)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, args.int(AREA)? as isize)?;
            on_cuda([input, args.tensor(WEIGHTS)?], indices, sizes, &results[0], |[values, weights], indices, order| {
                Mix::Spread { values, indices, weights, order }
            })
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INDICES).union(Saves::input(WEIGHTS)), |d| {
            d.grad().call(&MIX, [kept(d, INDICES), kept(d, WEIGHTS)])
        }),
        formula(WEIGHTS, Saves::input(INPUT).union(Saves::input(INDICES)), |d| {
            d.input(INPUT).call(&MEET, [d.grad().done().map_or(Value::None, Value::from), kept(d, INDICES)])
        }),
    ]),
    samples: &["t(2, 3, 4), i(5, 2, 4, 2), t(2, 4, 2), 5"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static MEET: Operator = Operator {
    name: "_mix_meet",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor other, Tensor indices) -> Tensor",
    doc: "Sums over the channels of `self[n, c, p] * other[n, c, indices[n, p, k]]`.

    >>> torch._mix_meet(torch.tensor([[[2., 3.]]]), torch.tensor([[[5., 6., 7.]]]), torch.tensor([[[0, 2], [1, -1]]]))
    tensor([[[10., 14.],
             [18.,  0.]]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, other, indices) = (args.tensor(INPUT)?, args.tensor(OTHER)?, args.tensor(INDICES)?);
            let s = sizes(input, indices, last(other))?;
            if other.rank() != 3 || other.sizes()[..2] != input.sizes()[..2] || last(input) != s.places as isize {
                return Err(shape_error(&[input, other, indices]));
            }
            Ok(vec![TensorSpec::new(indices.sizes(), input.dtype(), input)])
        },
        cpu: |args, results| {
            let (input, other, indices) = (args.tensor(INPUT)?, args.tensor(OTHER)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, last(other))?;
            // SAFETY: `run` upholds the kernel's contract.
            run(input, other, indices, sizes, &results[0], |dtype, s, values, x, at, out| unsafe {
                cpu::meet(dtype, s, values, x, at, out)
            })
        },
        cuda: OnCuda::Own(|args, results| {
            let (input, other, indices) = (args.tensor(INPUT)?, args.tensor(OTHER)?, args.tensor(INDICES)?);
            let sizes = sizes(input, indices, last(other))?;
            on_cuda([input, other], indices, sizes, &results[0], |[values, planes], indices, _| Mix::Meet {
                values,
                planes,
                indices,
            })
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER).union(Saves::input(INDICES)), |d| -> Expr {
            d.input(OTHER).call(&MIX, [kept(d, INDICES), d.grad().done().map_or(Value::None, Value::from)])
        }),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(INDICES)), |d| -> Expr {
            let grad = d.grad().done().map_or(Value::None, Value::from);
            d.input(INPUT).call(&SPREAD, [kept(d, INDICES), grad, Value::from(d.sizes(OTHER)[2] as i64)])
        }),
    ]),
    samples: &["t(2, 3, 4), t(2, 3, 5), i(5, 2, 4, 2)"],
    reference: "",
    ..Operator::BASE
};
