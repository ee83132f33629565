//! The steps of a call for operators that treat each element alone.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::loop_nest::{LoopNest, result_layout};
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Dims, Error, Layout, Result, Scalar};
use rushlight_cpu::pointwise::{InnerLoop, Numbers, RawOperand};
use rushlight_cuda::elementwise::Function;
use smallvec::SmallVec;

use super::destination::Destination;
use super::devices::{Chosen, check_devices, select_kernel};
use super::errors::{self, not_implemented};
use super::pointwise_operands::split;
use super::{numbers, temporaries};
use crate::allocate::allocate;
use crate::backcompat::broadcast_with_warnings;
use crate::copy::copy;
use crate::interpreter::while_detached;
use crate::operator::{Args, OnCuda, Operator, Pointwise, Promote, Tags, TensorSpec};
use crate::value::{Operand, Operands, Output, Target};
use crate::variants::wrong_shape;
use crate::{device_loops, fast_path, node, promote};

const KEPT_SHAPE: &str = "An in-place operation keeps the shape of the first tensor, and the others broadcast to it.";

/// The sizes that all operands broadcast to, which are the result's.
fn common_sizes(op: &Operator, operands: &Operands, in_place: bool) -> Result<Dims> {
    let mut sizes: Option<Dims> = None;
    for operand in operands {
        if let Operand::Tensor(tensor) = operand {
            let own = &tensor.layout().sizes;
            match &sizes {
                None => sizes = Some(own.clone()),
                Some(all) if all == own => {}
                Some(all) => {
                    let met = broadcast_with_warnings(op.display_name(in_place), all, own);
                    sizes = Some(if in_place { met.map_err(|error| error.hint(KEPT_SHAPE))? } else { met? });
                }
            }
        }
    }
    Ok(sizes.unwrap_or_default())
}

/// Runs the operator's loop over elements in host memory. `common` is the operands' common dtype; half types are computed
/// in float32.
fn compute_into(
    out: &Tensor,
    op: &Operator,
    body: &Pointwise,
    operands: &Operands,
    numbers: &Numbers,
    common: DType,
) -> Result<()> {
    let Some((wide, inner_loop)) = loop_for(body, common) else { return Err(not_implemented(op, common)) };
    let kernel = Loop { inner_loop, numbers, compute: wide, result: body.promote.result(wide) };
    through_result(out, body.promote.result(common), kernel.result, |out| kernel.over(out, operands))
}

/// Runs the operator's expression over elements in memory of a CUDA device.
fn compute_on_cuda(
    out: &Tensor,
    op: &Operator,
    body: &Pointwise,
    operands: &Operands,
    numbers: &Numbers,
    common: DType,
) -> Result<()> {
    let in_dtype = |dtype: DType| body.loops.expression(dtype);
    let Some((expression, dtype)) = in_dtype(common).or_else(|| in_dtype(common.compute())) else {
        return Err(not_implemented(op, common));
    };
    let (numbers_of, optional) = (expression.numbers.len(), expression.optional.len());
    let function = Function::Operator { name: op.name, dtype, numbers: numbers_of, optional };
    through_result(out, body.promote.result(common), body.promote.result(dtype), |out| {
        device_loops::compute(out, function, operands, numbers, dtype)
    })
}

/// Runs a loop that computes its result in another dtype, perhaps: half types in float32, unsigned integers on CUDA in signed ones.
/// Unless the target has the result's dtype, the result is then converted to that first, as if it were a tensor of its own.
fn through_result(out: &Tensor, result: DType, computed: DType, run: impl Fn(&Tensor) -> Result<()>) -> Result<()> {
    if computed == result || out.dtype() == result {
        return run(out);
    }
    let rounded = allocate(&TensorSpec::new(out.sizes(), result, out))?;
    run(&rounded)?;
    copy(out, &rounded)
}

/// All steps of an elementwise call.
pub fn pointwise(body: &Pointwise, args: &Args, target: Target, declined: bool) -> Result<Output> {
    let device = check_devices(args).map_err(|error| errors::shapes_of_meta(args).unwrap_or(error))?;
    let in_place = matches!(target, Target::InPlace);
    let (operands, numbers) = split(args)?;
    let small = numbers::all_small(&numbers);
    if small
        && !declined
        && let Some(output) = try_fast_path(body, args, &target, &operands, &numbers)?
    {
        return Ok(output);
    }
    // Errors of shapes are raised before those of dtypes.
    let common = promoted(body, &operands, &numbers).or_else(|error| {
        let sizes = common_sizes(args.op, &operands, in_place)?;
        match operands.first() {
            Some(Operand::Tensor(own)) if in_place && *own.sizes() != sizes => Err(wrong_shape(own.sizes(), &sizes)),
            _ => Err(error),
        }
    })?;
    // A kernel that lacks the dtype does not come to its numbers.
    if !small && !args.op.tags.has(Tags::DOUBLE_SCALARS) && args.op.dtypes.has(common) {
        numbers::check(args, common)?;
    }
    let rounded = temporaries::in_half(args.op, &operands, common, device)?;
    let numbers = match common.compute() != common && args.op.tags.has(Tags::ROUNDED_PARAMETERS) {
        true => numbers.into_iter().map(|number| promote::rounded(number, common)).collect(),
        false => numbers,
    };
    let operands = temporaries::substituted(operands, &rounded);
    let sizes = common_sizes(args.op, &operands, in_place)?;
    let of_number = matches!(operands.first(), Some(Operand::Number(_)));
    let row_major = args.op.tags.has(Tags::ROW_MAJOR) || of_number && args.op.tags.has(Tags::ROW_MAJOR_FOR_NUMBERS);
    let kept = operands.first().and_then(|operand| match operand {
        Operand::Tensor(own) if body.keeps_strides.has(own.dtype()) && own.layout().is_dense() => Some(own.layout()),
        _ => None,
    });
    let layout = match kept {
        Some(own) => Layout { offset: 0, ..own.clone() },
        None if row_major => Layout::contiguous(&sizes),
        None => {
            // A number is a tensor without dimensions, so that the operands are not all of one shape. For a third
            // operand (the weight of `lerp`) torch has an overload for numbers.
            let number = Layout::contiguous(&[]);
            let each = operands.iter().enumerate().filter_map(|(place, operand)| match operand {
                Operand::Tensor(tensor) => Some(tensor.layout()),
                Operand::Number(_) => (place < 2).then_some(&number),
            });
            result_layout(&sizes, each)
        }
    };
    let result = TensorSpec { layout, dtype: body.promote.result(common), device };
    let written = Destination::find(args, target, result)?;
    // torch checks the dtype in the kernel, after the result's place.
    if !args.op.dtypes.has(common) {
        return Err(not_implemented(args.op, common));
    }
    let copies = temporaries::copied(&written, &operands)?;
    let operands = temporaries::substituted(operands, &copies);
    run(written.tensor(), body, args.op, &operands, &numbers, common)?;
    written.record(args)
}

/// The whole call on the fast path, if the operands allow it.
fn try_fast_path(
    body: &Pointwise,
    args: &Args,
    target: &Target,
    operands: &Operands,
    numbers: &Numbers,
) -> Result<Option<Output>> {
    match target {
        Target::Fresh => match fast_path::attempt(args.op, body, operands, numbers, None, None)? {
            Some(result) => node::record(args, Output::Tensor(result)).map(Some),
            None => Ok(None),
        },
        Target::InPlace => {
            let own = fast_path::attempt(args.op, body, operands, numbers, Some(args), None)?;
            Ok(own.map(Output::Tensor))
        }
        Target::Out(_) => Ok(None),
    }
}

/// The common dtype of the operands, a float where the operator needs one.
fn promoted(body: &Pointwise, operands: &Operands, numbers: &Numbers) -> Result<DType> {
    let extra: &[Scalar] = if body.promote == Promote::WithNumbers { numbers } else { &[] };
    let common = promote::common(operands, extra)?;
    let common = match body.promote {
        Promote::IntToFloat if !common.is_differentiable() => default_dtype(),
        _ => common,
    };
    Ok(common)
}

type Compute = fn(&Tensor, &Operator, &Pointwise, &Operands, &Numbers, DType) -> Result<()>;

/// Runs the loop, if there are elements.
fn run(
    out: &Tensor,
    body: &Pointwise,
    op: &Operator,
    operands: &Operands,
    numbers: &Numbers,
    common: DType,
) -> Result<()> {
    match select_kernel(op, out.device(), compute_into as Compute, OnCuda::Own(compute_on_cuda))? {
        Chosen::Here(kernel) if out.layout().numel() > 0 => kernel(out, op, body, operands, numbers, common),
        _ => Ok(()),
    }
}

/// The operator's loop for a dtype, and its compute dtype: half types are computed in float32, unless the loop works on
/// their bits.
fn loop_for(body: &Pointwise, dtype: DType) -> Option<(DType, InnerLoop)> {
    let in_dtype = |dtype: DType| (body.loops.cpu)(dtype).map(|inner_loop| (dtype, inner_loop));
    in_dtype(dtype).or_else(|| in_dtype(dtype.compute()))
}

struct Loop<'a> {
    inner_loop: InnerLoop,
    numbers: &'a Numbers,
    compute: DType,
    result: DType,
}

impl Loop<'_> {
    /// Runs the loop, without the GIL if it is long.
    fn over(&self, out: &Tensor, operands: &Operands) -> Result<()> {
        while_detached(out.layout().numel(), || match operands.len() {
            0 => self.run::<1>(out, operands),
            1 => self.run::<2>(out, operands),
            2 => self.run::<3>(out, operands),
            3 => self.run::<4>(out, operands),
            4 => self.run::<5>(out, operands),
            more => Err(Error::runtime(format!("an expression takes at most four operands, not {more}"))),
        })
    }

    /// Broadcasts result and operands to one shape and iterates over them together; `N` includes the result.
    fn run<const N: usize>(&self, out: &Tensor, operands: &Operands) -> Result<()> {
        let target = out.layout();
        let mut stretched: [Option<Layout>; N] = [const { None }; N];
        let mut numbers = [[0u64; 2]; N];
        let mut pins: SmallVec<[Pin; 5]> = SmallVec::new();
        pins.push(out.storage().pin()?);
        let mut raw = [RawOperand { pointer: pins[0].as_ptr(), dtype: out.dtype() }; N];
        for (n, operand) in operands.iter().enumerate().take(N - 1) {
            match operand {
                Operand::Tensor(tensor) => {
                    let layout = tensor.layout();
                    if layout.sizes != target.sizes {
                        stretched[n + 1] = Some(layout.broadcast_to(&target.sizes)?);
                    }
                    let pin = tensor.storage().pin()?;
                    raw[n + 1] = RawOperand { pointer: pin.as_ptr(), dtype: tensor.dtype() };
                    pins.push(pin);
                }
                Operand::Number(number) => {
                    numbers[n + 1] = promote::bits(*number, self.compute);
                    let strides = Dims::from_elem(0, target.rank());
                    stretched[n + 1] = Some(Layout { sizes: target.sizes.clone(), strides, offset: 0 });
                    let pointer = std::ptr::from_mut(&mut numbers[n + 1]).cast::<u8>();
                    raw[n + 1] = RawOperand { pointer, dtype: self.compute };
                }
            }
        }
        let layouts: [&Layout; N] = std::array::from_fn(|n| match (&stretched[n], n) {
            (Some(layout), _) => layout,
            (None, 0) => target,
            (None, _) => match operands.get(n - 1) {
                Some(Operand::Tensor(tensor)) => tensor.layout(),
                _ => target,
            },
        });
        let nest = LoopNest::new(layouts, std::array::from_fn(|n| raw[n].dtype.size()));
        let mut dtypes = [self.compute; N];
        dtypes[0] = self.result;
        // SAFETY: every layout stays within its pinned storage (tensors are constructed that way), numbers live on this
        // stack frame, and the loop was made for these dtypes.
        unsafe { rushlight_cpu::pointwise::run(&nest, raw, dtypes, self.inner_loop, self.numbers) };
        Ok(())
    }
}
