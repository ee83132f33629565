//! Convolutions and their transposes.
//!
//! Three private rows do the work: the convolution, the gradient of its input (which is also the transposed convolution)
//! and the gradient of its weight. Each is linear in both operands, and the derivative of each consists of the other two,
//! so gradients of any order come out of them. Their `padding` has the sides before all dimensions, then those after, which
//! may be negative where the last elements are not seen.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_cpu::conv::{Geometry, Operands, Target, convolve, convolves};

use super::plain;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::op;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::reshape::sizes_value;

const ACCEPTED: DTypes = DTypes::NUMBERS;

pub static CONV: Row = Row {
    name: "_conv",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The convolution of a batch of images of any number of dimensions.

    >>> torch._conv(torch.ones(1, 1, 3), torch.ones(1, 1, 2), None, (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (input, weight) = (args.tensor(0)?, args.tensor(1)?);
            let dims = input.rank().saturating_sub(2);
            let lists = [args.ints(3)?.len(), args.ints(4)?.len(), args.ints(5)?.len()];
            if dims == 0
                || weight.rank() != input.rank()
                || lists != [dims, 2 * dims, dims]
                || args.ints(3)?.contains(&0)
            {
                return Err(Error::runtime("operands of a convolution do not fit each other"));
            }
            let mut sizes = Dims::from_slice(&[input.sizes()[0], weight.sizes()[0]]);
            sizes.extend(output_sizes(&input.sizes()[2..], &weight.sizes()[2..], args)?);
            Ok(vec![Spec::new(&sizes, input.dtype(), input)])
        },
        cpu: |args, results| {
            run(Target::Output, args, [args.tensor(0)?, args.tensor(1)?, &results[0]], args.optional_tensor(2))
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV_INPUT, d, d.grad(), d.input(1).conj(), Some(d.sizes(0)))),
        formula(1, Saves::input(0), |d| again(&CONV_WEIGHT, d, d.input(0).conj(), d.grad(), Some(d.sizes(1)))),
        formula(2, Saves::NOTHING, |d| {
            let dims: Ints = (0..d.rank(0) as i64).filter(|&dim| dim != 1).collect();
            d.grad().call(&crate::reduce::sum::SUM_DIM, [Value::Ints(dims)])
        }),
    ]),
    node: "ConvolutionBackward0",
    samples: &[
        "t(2, 2, 5), t(3, 2, 3), t(3), (1,), (1, 1), (1,), 1",
        "t(2, 4, 5, 4), t(4, 2, 3, 2), None, (2, 1), (1, 0, 1, 0), (1, 2), 2",
    ],
    ..Row::BASE
};

/// Also the transposed convolution of `grad`.
pub static CONV_INPUT: Row = Row {
    name: "_conv_input",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor weight, int[] size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The gradient of a convolution's input of `size`.

    >>> torch._conv_input(torch.ones(1, 1, 2), torch.ones(1, 1, 2), (1, 1, 3), (1,), (0, 0), (1,), 1)
    tensor([[[1., 2., 1.]]])",
    dtypes: ACCEPTED,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(&to_dims(args.ints(2)?), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| run(Target::Input, args, [&results[0], args.tensor(1)?, args.tensor(0)?], None),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV, d, d.grad(), d.input(1).conj(), None)),
        formula(1, Saves::input(0), |d| again(&CONV_WEIGHT, d, d.grad(), d.input(0).conj(), Some(d.sizes(1)))),
    ]),
    node: "ConvolutionBackward0",
    samples: &["t(2, 3, 5), t(3, 2, 3), (2, 2, 5), (1,), (1, 1), (1,), 1"],
    ..Row::BASE
};

pub static CONV_WEIGHT: Row = Row {
    name: "_conv_weight",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor grad, int[] size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    doc: "The gradient of a convolution's weight of `size`.

    >>> torch._conv_weight(torch.ones(1, 1, 3), torch.ones(1, 1, 2), (1, 1, 2), (1,), (0, 0), (1,), 1)
    tensor([[[2., 2.]]])",
    dtypes: ACCEPTED,
    run: Run::Kernel(Kernel {
        infer: |args| Ok(vec![Spec::new(&to_dims(args.ints(2)?), args.tensor(0)?.dtype(), args.tensor(0)?)]),
        cpu: |args, results| run(Target::Weight, args, [args.tensor(0)?, &results[0], args.tensor(1)?], None),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| again(&CONV_INPUT, d, d.input(1).conj(), d.grad(), Some(d.sizes(0)))),
        formula(1, Saves::input(0), |d| again(&CONV, d, d.input(0).conj(), d.grad(), None)),
    ]),
    node: "ConvolutionBackwardBackward0",
    samples: &["t(2, 2, 5), t(2, 3, 5), (3, 2, 3), (1,), (1, 1), (1,), 1"],
    ..Row::BASE
};

/// Calls one of the three with the geometry of the call that is derived.
fn again(row: &'static Row, d: &Derive, first: Expr, second: Expr, sizes: Option<&[isize]>) -> Expr {
    let second = match second.done() {
        Ok(second) => second,
        Err(error) => return Expr::Failed(error),
    };
    let sizes = sizes.map_or(Value::None, sizes_value);
    first.call(row, [second.into(), sizes, d.ints(3).into(), d.ints(4).into(), d.ints(5).into(), d.int(6).into()])
}

/// The output's dimensions of space; geometry stands at places 3 to 5.
fn output_sizes(input: &[isize], kernel: &[isize], args: &Args) -> Result<Dims> {
    let (stride, padding, dilation) = (args.ints(3)?, args.ints(4)?, args.ints(5)?);
    let n = input.len();
    let size = |dim: usize| {
        let padded = input[dim] as i128 + i128::from(padding[dim]) + i128::from(padding[n + dim]);
        let reach = i128::from(dilation[dim]) * (kernel[dim] as i128 - 1);
        let size = (padded - reach - 1).div_euclid(i128::from(stride[dim])) + 1;
        isize::try_from(size).map_err(|_| Error::runtime("numel: integer multiplication overflow"))
    };
    (0..n).map(size).collect()
}

/// The dtype in which a convolution is computed.
fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::U8 | DType::I8 | DType::I16 => DType::I32,
        other => other.compute(),
    }
}

/// The private rows can be called from anywhere, so the sizes that the kernel relies on are checked here too.
fn check_operands(own: [&[isize]; 3], args: &Args) -> Result<()> {
    let [input, weight, output] = own;
    let (rank, groups) = (input.len(), args.int(6)? as isize);
    let positive =
        |place: usize| Ok::<_, Error>(args.ints(place)?.len() == rank - 2 && args.ints(place)?.iter().all(|&n| n > 0));
    let fits = (3..=5).contains(&rank)
        && own.iter().all(|sizes| sizes.len() == rank)
        && groups > 0
        && weight[0] % groups == 0
        && input[0] == output[0]
        && input[1] == weight[1] * groups
        && output[1] == weight[0]
        && positive(3)?
        && positive(5)?
        && args.ints(4)?.len() == 2 * (rank - 2)
        && args.ints(4)?[..rank - 2].iter().all(|&n| n >= 0);
    if fits {
        return Ok(());
    }
    Err(Error::runtime("operands of a convolution do not fit each other").shapes(own))
}

/// Computes the target out of the other two of input, weight and output.
fn run(target: Target, args: &Args, operands: [&Tensor; 3], bias: Option<&Tensor>) -> Result<()> {
    let own = operands.map(|tensor| tensor.sizes().as_slice());
    check_operands(own, args)?;
    if bias.is_some_and(|bias| bias.sizes().as_slice() != &own[1][..1]) {
        return Err(Error::runtime("operands of a convolution do not fit each other").shapes(own));
    }
    let [input, weight, output] = own;
    let spread = |sizes: &[isize], missing: usize| {
        let mut three = [missing; 3];
        for (slot, &size) in three.iter_mut().rev().zip(sizes.iter().rev()) {
            *slot = size as usize;
        }
        three
    };
    let list = |place: usize| -> Result<Dims> { Ok(to_dims(args.ints(place)?)) };
    let groups = args.int(6)? as usize;
    let geometry = Geometry {
        batch: input[0] as usize,
        groups,
        channels: weight[1] as usize,
        features: weight[0] as usize / groups,
        input: spread(&input[2..], 1),
        output: spread(&output[2..], 1),
        kernel: spread(&weight[2..], 1),
        stride: spread(&list(3)?, 1),
        padding: spread(&list(4)?[..input.len() - 2], 0),
        dilation: spread(&list(5)?, 1),
    };
    let at = match target {
        Target::Input => 0,
        Target::Weight => 1,
        Target::Output => 2,
    };
    let result = operands[at];
    let dtype = compute_dtype(result.dtype());
    if !convolves(dtype) {
        return Err(super::refused("slow_conv2d_cpu", dtype));
    }
    let prepared = |place: usize| {
        if place != at {
            plain(operands[place], dtype)
        } else if result.dtype() == dtype {
            Ok(result.clone())
        } else {
            crate::create::empty(result.sizes(), dtype, result.device())
        }
    };
    let tensors = [prepared(0)?, prepared(1)?, prepared(2)?];
    let bias = bias.map(|bias| plain(bias, dtype)).transpose()?;
    {
        let pins = pin_all(tensors.iter().map(Tensor::storage))?;
        let start =
            |place: usize| pins[place].as_ptr().wrapping_offset(tensors[place].layout().offset * dtype.size() as isize);
        let bias_pin = bias.as_ref().map(|bias| bias.storage().pin()).transpose()?;
        let bias = bias
            .as_ref()
            .zip(bias_pin.as_ref())
            .map(|(bias, pin)| pin.as_ptr().wrapping_offset(bias.layout().offset * dtype.size() as isize).cast_const());
        let operands = Operands { input: start(0), weight: start(1), output: start(2), bias };
        // SAFETY: row-major operands, pinned, of the geometry's sizes; the result is fresh.
        unsafe { convolve(dtype, target, &geometry, operands) };
    }
    if result.dtype() != dtype { crate::copy::copy(result, &tensors[at]) } else { Ok(()) }
}

/// What a call of `conv1d` and its kin says, with lists as long as there are dimensions.
struct Plan {
    input: Tensor,
    batched: bool,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: i64,
}

/// Where the arguments of a public row stand.
struct Places {
    stride: usize,
    padding: usize,
    dilation: usize,
    groups: usize,
}

const FORWARD: Places = Places { stride: 3, padding: 4, dilation: 5, groups: 6 };
const TRANSPOSED: Places = Places { stride: 3, padding: 4, groups: 6, dilation: 7 };

/// A list of one value for each dimension.
fn spread(args: &Args, place: usize, dims: usize, name: &str) -> Result<Ints> {
    let given = args.ints(place)?;
    match given.len() {
        1 => Ok(Ints::from_elem(given[0], dims)),
        n if n == dims => Ok(Ints::from_slice(given)),
        _ => Err(Error::runtime(format!(
            "expected {name} to be a single integer value or a list of {dims} values to match the convolution dimensions, but got {name}={}",
            Shape(&to_dims(given))
        ))),
    }
}

impl Plan {
    /// Reads and checks the arguments in torch's order and words; `padding` may be a word instead of numbers.
    fn read(args: &Args, dims: usize, places: &Places, transposed: bool) -> Result<Plan> {
        let (input, weight) = (args.tensor(0)?, args.tensor(1)?);
        let name = args.row.python_name();
        let rank = input.rank();
        if rank != dims + 1 && rank != dims + 2 {
            return Err(Error::runtime(format!(
                "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {}",
                dims + 1,
                dims + 2,
                Shape(input.sizes())
            )));
        }
        let batched = rank == dims + 2;
        let input = if batched { input.clone() } else { op!(crate::view::squeeze::UNSQUEEZE, input, 0i64)? };
        if weight.rank() != dims + 2 {
            return Err(Error::runtime(format!(
                "Expected {0}-dimensional input for {0}-dimensional weight {1}, but got {2}-dimensional input of size {3} instead",
                weight.rank(),
                Shape(weight.sizes()),
                input.rank(),
                Shape(input.sizes())
            )));
        }
        check_dtypes(&input, weight, args.optional_tensor(2))?;
        let stride = spread(args, places.stride, dims, "stride")?;
        let dilation = spread(args, places.dilation, dims, "dilation")?;
        let padding = match args.optional_str(places.padding) {
            Some(word) => padding_of_word(word, weight, &stride, &dilation)?,
            None => {
                let sides = spread(args, places.padding, dims, "padding")?;
                sides.iter().chain(&sides).copied().collect()
            }
        };
        let groups = args.int(places.groups)?;
        for (bad, what) in [
            (padding.iter().any(|&n| n < 0), "negative padding"),
            (stride.iter().any(|&n| n <= 0), "non-positive stride"),
            (dilation.iter().any(|&n| n <= 0), "non-positive dilation"),
            (groups <= 0, "non-positive groups"),
        ] {
            if bad {
                return Err(Error::runtime(format!("{what} is not supported")));
            }
        }
        let plan = Plan { input, batched, stride, padding, dilation, groups };
        plan.check_channels(weight, args.optional_tensor(2), transposed)?;
        Ok(plan)
    }

    fn check_channels(&self, weight: &Tensor, bias: Option<&Tensor>, transposed: bool) -> Result<()> {
        let (own, groups) = (weight.sizes(), self.groups as isize);
        let shape = Shape(own);
        if own[0] < groups {
            return Err(Error::runtime(format!(
                "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {shape} instead"
            )));
        }
        if own[0] % groups != 0 {
            return Err(Error::runtime(format!(
                "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{shape}] instead"
            )));
        }
        let words = if transposed { "transposed=1".to_string() } else { format!("groups={groups}") };
        let channels = if transposed { own[0] } else { own[1] * groups };
        if self.input.sizes()[1] != channels {
            return Err(Error::runtime(format!(
                "Given {words}, weight of size {shape}, expected input{} to have {channels} channels, but got {} channels instead",
                Shape(self.input.sizes()),
                self.input.sizes()[1]
            ))
            .shapes([self.input.sizes().as_slice(), own.as_slice()]));
        }
        let features = if transposed { own[1] * groups } else { own[0] };
        match bias {
            Some(bias) if bias.sizes().as_slice() != [features] => Err(Error::runtime(format!(
                "Given {}weight of size {shape}, expected bias to be 1-dimensional with {features} elements, but got bias of size {} instead",
                if transposed { "transposed=1, " } else { "" },
                Shape(bias.sizes())
            ))),
            _ => Ok(()),
        }
    }

    /// The padding on both sides of a dimension of space.
    fn sides(&self, dim: usize) -> isize {
        self.padding[dim].saturating_add(self.padding[self.padding.len() / 2 + dim]) as isize
    }

    /// The kernel must fit into the padded input.
    fn check_fits(&self, weight: &Tensor) -> Result<()> {
        let space = &self.input.sizes()[2..];
        let n = space.len();
        let padded: Vec<isize> = (0..n).map(|dim| space[dim].saturating_add(self.sides(dim))).collect();
        let reach: Vec<isize> =
            (0..n).map(|dim| spanned(self.dilation[dim] as isize, weight.sizes()[2 + dim]).saturating_add(1)).collect();
        if padded.iter().zip(&reach).all(|(size, reach)| size >= reach) {
            return Ok(());
        }
        let by = |sizes: &[isize]| sizes.iter().map(isize::to_string).collect::<Vec<_>>().join(" x ");
        Err(Error::runtime(format!(
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
            by(&padded),
            by(&reach)
        ))
        .shapes([self.input.sizes().as_slice(), weight.sizes().as_slice()]))
    }

    /// Without the batch that was added.
    fn finish(&self, result: Tensor) -> Result<Output> {
        let result = if self.batched { result } else { op!(crate::view::squeeze::SQUEEZE_DIM, &result, 0i64)? };
        Ok(Output::Tensor(result))
    }
}

/// How far a kernel's last element is from its first.
fn spanned(dilation: isize, kernel: isize) -> isize {
    dilation.saturating_mul(kernel - 1)
}

fn check_dtypes(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    if input.dtype() != weight.dtype() {
        return Err(Error::runtime(format!(
            "Input type (torch.{}Tensor) and weight type (torch.{}Tensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
            input.dtype().title(),
            weight.dtype().title()
        ))
        .hint("Convert one of them: x.to(weight.dtype)."));
    }
    match bias {
        Some(bias) if bias.dtype() != input.dtype() => Err(Error::runtime(format!(
            "Input type ({}) and bias type ({}) should be the same",
            input.dtype().c_name(),
            bias.dtype().c_name()
        ))),
        _ if !ACCEPTED.has(input.dtype()) => Err(super::refused("slow_conv2d_cpu", input.dtype())),
        _ => Ok(()),
    }
}

/// The sides for `"valid"` (none) and `"same"` (as many outputs as inputs; the odd one behind).
fn padding_of_word(word: &str, weight: &Tensor, stride: &[i64], dilation: &[i64]) -> Result<Ints> {
    let kernel = &weight.sizes()[2..];
    match word {
        "valid" => Ok(Ints::from_elem(0, 2 * kernel.len())),
        "same" if stride.iter().any(|&step| step != 1) => {
            Err(Error::runtime("padding='same' is not supported for strided convolutions"))
        }
        "same" => {
            let total = |dim: usize| spanned(dilation[dim] as isize, kernel[dim]) as i64;
            let before = (0..kernel.len()).map(|dim| total(dim) / 2);
            Ok(before.chain((0..kernel.len()).map(|dim| total(dim) - total(dim) / 2)).collect())
        }
        _ => Err(Error::runtime(format!("Invalid padding string: '{word}'"))),
    }
}

fn convolution(args: &Args, dims: usize) -> Result<Output> {
    let plan = Plan::read(args, dims, &FORWARD, false)?;
    let weight = args.tensor(1)?;
    plan.check_fits(weight)?;
    let bias = args.optional_tensor(2);
    let result = CONV.tensor([
        (&plan.input).into(),
        weight.into(),
        bias.into(),
        plan.stride.clone().into(),
        plan.padding.clone().into(),
        plan.dilation.clone().into(),
        plan.groups.into(),
    ])?;
    plan.finish(result)
}

fn transposed(args: &Args, dims: usize) -> Result<Output> {
    let mut plan = Plan::read(args, dims, &TRANSPOSED, true)?;
    let weight = args.tensor(1)?;
    let extra = spread(args, 5, dims, "output_padding")?;
    if extra.iter().any(|&n| n < 0) {
        return Err(Error::runtime("negative output_padding is not supported"));
    }
    if (0..dims).any(|dim| extra[dim] >= plan.stride[dim] && extra[dim] >= plan.dilation[dim]) {
        let axes = &["depth", "height", "width"][3 - dims..];
        let list = |name: &str, values: &[i64]| -> String {
            axes.iter().zip(values).map(|(axis, value)| format!(" {name}_{axis}: {value}")).collect()
        };
        return Err(Error::runtime(format!(
            "output padding must be smaller than either stride or dilation, but got{}{}{}",
            list("output_padding", &extra),
            list("stride", &plan.stride),
            list("dilation", &plan.dilation)
        )));
    }
    let mut size = Ints::from_slice(&[plan.input.sizes()[0] as i64, weight.sizes()[1] as i64 * plan.groups]);
    for dim in 0..dims {
        let steps = (plan.input.sizes()[2 + dim] as i64 - 1) * plan.stride[dim];
        let reach = plan.dilation[dim] * (weight.sizes()[2 + dim] as i64 - 1) + 1;
        let own = steps + reach + extra[dim] - 2 * plan.padding[dim];
        if own < 0 {
            return Err(Error::runtime(format!(
                "Given input size per channel: {}. Calculated output size per channel: {own}. Output size is too small",
                Shape(&plan.input.sizes()[2..])
            )));
        }
        // What is left behind the last window.
        plan.padding[dims + dim] = steps + reach - own - plan.padding[dim];
        size.push(own);
    }
    let result = CONV_INPUT.tensor([
        (&plan.input).into(),
        weight.into(),
        size.into(),
        plan.stride.clone().into(),
        plan.padding.clone().into(),
        plan.dilation.clone().into(),
        plan.groups.into(),
    ])?;
    let result = match args.optional_tensor(2) {
        None => result,
        Some(bias) => {
            let mut shape = Ints::from_slice(&[bias.numel() as i64]);
            shape.extend(std::iter::repeat_n(1, dims));
            op!(crate::pointwise::arith::ADD, &result, op!(crate::view::RESHAPE, bias, shape)?)?
        }
    };
    plan.finish(result)
}

/// The public rows, which differ by the number of dimensions.
macro_rules! public {
    ($($row:ident $words:ident $name:literal $named:literal $alias:literal $dims:literal $sample:expr, $more:expr, $errors:expr, $more_errors:expr, $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] dilation=1, int groups=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            run: Run::Compose(|args| convolution(args, $dims)),
            derivative: Derivative::Composed,
            samples: $sample,
            errors: $errors,
            ..Row::BASE
        };
        pub static $words: Row = Row {
            name: $named,
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, str padding='valid', int[] dilation=1, int groups=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            run: Run::Compose(|args| convolution(args, $dims)),
            derivative: Derivative::Composed,
            samples: $more,
            errors: $more_errors,
            ..Row::BASE
        };
    )*};
}

public! {
    CONV1D CONV1D_WORDS "conv1d" "conv1d.padding" "nn.functional.conv1d" 1
        &["t(2, 2, 6), t(3, 2, 3), t(3)", "t(4, 6), t(4, 2, 3), stride=2, padding=1, dilation=2, groups=2"],
        &["t(2, 2, 6), t(3, 2, 4), t(3), padding='same'"],
        &[
            ("t(1, 2, 5), t(3, 3, 2)", "RuntimeError", "Given groups=1, weight of size [3, 3, 2], expected input[1, 2, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 5), t(3, 2, 2), t(2)", "RuntimeError", "Given weight of size [3, 2, 2], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead"),
            ("t(1, 2, 5), t(3, 2, 2), stride=0", "RuntimeError", "non-positive stride is not supported"),
        ],
        &[("t(1, 2, 5), t(3, 2, 2), padding='same', stride=2", "RuntimeError", "padding='same' is not supported for strided convolutions")],
        "The convolution (cross-correlation) of sequences `(N, C, L)` or `(C, L)` with filters `(F, C / groups, K)`.

`padding` may be `'valid'` or `'same'`.

    >>> torch.conv1d(torch.tensor([[1., 2., 3., 4.]]), torch.tensor([[[1., 1.]]]))
    tensor([[3., 5., 7.]])";
    CONV2D CONV2D_WORDS "conv2d" "conv2d.padding" "nn.functional.conv2d" 2
        &["t(2, 2, 5, 6), t(3, 2, 3, 2), t(3)", "t(4, 5, 5), t(4, 2, 3, 3), stride=2, padding=(1, 0), dilation=2, groups=2", "t(2, 3, 4, 4), t(2, 3, 1, 1)"],
        &["t(2, 2, 6, 5), t(3, 2, 4, 3), t(3), padding='same'"],
        &[("t(1, 2, 5, 5), t(3, 3, 2, 2)", "RuntimeError", "Given groups=1, weight of size [3, 3, 2, 2], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead")],
        &[("t(1, 2, 5, 5), t(3, 2, 2, 2), padding='some'", "RuntimeError", "Invalid padding string: 'some'")],
        "The convolution (cross-correlation) of images `(N, C, H, W)` or `(C, H, W)` with filters `(F, C / groups, KH, KW)`.

`padding` may be `'valid'` or `'same'`.

    >>> torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])";
    CONV3D CONV3D_WORDS "conv3d" "conv3d.padding" "nn.functional.conv3d" 3
        &["t(1, 2, 3, 4, 3), t(2, 2, 2, 2, 2), t(2)"],
        &["t(1, 2, 3, 4, 3), t(2, 2, 2, 3, 2), t(2), padding='same'"],
        &[("t(1, 2, 3, 3, 3), t(3, 2, 4, 4, 4)", "RuntimeError", "Calculated padded input size per channel: (3 x 3 x 3). Kernel size: (4 x 4 x 4). Kernel size can't be greater than actual input size")],
        &[("t(1, 2, 5, 5, 5), t(3, 2, 2, 2, 2), padding='some'", "RuntimeError", "Invalid padding string: 'some'")],
        "The convolution (cross-correlation) of volumes `(N, C, D, H, W)` or `(C, D, H, W)` with filters `(F, C / groups, KD, KH, KW)`.

    >>> torch.conv3d(torch.ones(1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
    tensor([[[[8.]]]])";
}

macro_rules! public_transposed {
    ($($row:ident $name:literal $alias:literal $dims:literal $sample:expr, $errors:expr, $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            aliases: &[$alias],
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] output_padding=0, int groups=1, int[] dilation=1) -> Tensor",
            doc: $doc,
            dtypes: ACCEPTED,
            run: Run::Compose(|args| transposed(args, $dims)),
            derivative: Derivative::Composed,
            samples: $sample,
            errors: $errors,
            ..Row::BASE
        };
    )*};
}

public_transposed! {
    CONV_TRANSPOSE1D "conv_transpose1d" "nn.functional.conv_transpose1d" 1
        &["t(2, 2, 4), t(2, 3, 3), t(3)", "t(4, 4), t(4, 3, 3), stride=2, padding=1, output_padding=1, groups=2"],
        &[
            ("t(1, 2, 5), t(3, 3, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2], expected input[1, 2, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 5), t(2, 3, 2), t(2)", "RuntimeError", "Given transposed=1, weight of size [2, 3, 2], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead"),
        ],
        "The transposed convolution of sequences `(N, C, L)` or `(C, L)` with filters `(C, F / groups, K)`.

    >>> torch.conv_transpose1d(torch.tensor([[1., 2.]]), torch.tensor([[[1., 1.]]]))
    tensor([[1., 3., 2.]])";
    CONV_TRANSPOSE2D "conv_transpose2d" "nn.functional.conv_transpose2d" 2
        &["t(2, 2, 3, 4), t(2, 3, 3, 2), t(3)", "t(4, 3, 3), t(4, 1, 3, 3), stride=2, padding=1, output_padding=1, groups=2, dilation=2"],
        &[
            ("t(1, 2, 5, 5), t(3, 3, 2, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2, 2], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels instead"),
            ("t(1, 2, 5, 5), t(2, 3, 2, 2), output_padding=1", "RuntimeError", "output padding must be smaller than either stride or dilation, but got output_padding_height: 1 output_padding_width: 1 stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1"),
        ],
        "The transposed convolution of images `(N, C, H, W)` or `(C, H, W)` with filters `(C, F / groups, KH, KW)`.

    >>> torch.conv_transpose2d(torch.ones(1, 1, 2), torch.ones(1, 1, 1, 2))
    tensor([[[1., 2., 1.]]])";
    CONV_TRANSPOSE3D "conv_transpose3d" "nn.functional.conv_transpose3d" 3
        &["t(1, 2, 2, 3, 2), t(2, 2, 2, 2, 2), t(2)"],
        &[("t(1, 2, 5, 5, 5), t(3, 3, 2, 2, 2)", "RuntimeError", "Given transposed=1, weight of size [3, 3, 2, 2, 2], expected input[1, 2, 5, 5, 5] to have 3 channels, but got 2 channels instead")],
        "The transposed convolution of volumes `(N, C, D, H, W)` or `(C, D, H, W)` with filters `(C, F / groups, KD, KH, KW)`.

    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[1., 2., 1.]]]])";
}
