//! Sampling images at arbitrary points: `affine_grid` computes the points, `grid_sample` the values there.
//!
//! The value at a point is a weighted sum of a few elements of each channel. Their indices and weights are composed
//! here, elementwise over the grid, and `mix` applies them to all channels, which gives derivatives of any order.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, checked_new};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, Autocasts, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};
use rushlight_dispatch::{copy, create, handled, interpreter, op};

use super::mix::MIX;
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::join::cat::STACK;
use crate::pointwise::clamp::CLAMP;
use crate::pointwise::round::{FLOOR, ROUND};
use crate::view::narrow::SELECT;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Linear,
    Nearest,
    Cubic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// One spatial dimension: how coordinates are converted to positions.
#[derive(Clone, Copy)]
struct SampledDim {
    size: f64,
    padding: Padding,
    /// Whether -1 and 1 are the centres of the outermost elements, instead of their outer edges.
    corners: bool,
    /// Whether it is a dimension of a volume: there a coordinate that is no number reads the last element, or the padding.
    volume: bool,
}

impl SampledDim {
    /// Converts a coordinate from -1 .. 1 to a position.
    fn place(&self, coordinate: Expr) -> Expr {
        if self.corners {
            (coordinate + 1.0) * ((self.size - 1.0) / 2.0)
        } else {
            ((coordinate + 1.0) * self.size - 1.0) * 0.5
        }
    }

    /// Moves positions outside of the axis into it. A position that was clipped to an end has no gradient.
    fn inside(&self, place: Expr) -> Expr {
        let place = match self.padding {
            // Outside of a volume no weight of a position matters, not even NaN.
            Padding::Zeros if self.volume => return place.clone().isfinite().choose(place, -2.0),
            Padding::Zeros => return place,
            Padding::Border => place,
            Padding::Reflection => self.reflected(place),
        };
        let high = self.size - 1.0;
        let between = place.clone().above(0.0).and(place.clone().below(high));
        let ends = detached(place.clone()).call(&CLAMP, [Scalar::Float(0.0).into(), Scalar::Float(high).into()]);
        // A position that is no number is that of an outermost element.
        let ends = ends.clone().equals(ends.clone()).choose(ends, if self.volume { high } else { 0.0 });
        between.choose(place, ends)
    }

    fn reflected(&self, place: Expr) -> Expr {
        let (low, high) = if self.corners { (0.0, self.size - 1.0) } else { (-0.5, self.size - 0.5) };
        let span = high - low;
        if span == 0.0 {
            return place * 0.0;
        }
        let away = (place - low).abs();
        let flips = floor(away.clone() / span);
        let rest = away - flips.clone() * span;
        let odd = (flips.clone() - floor(flips * 0.5) * 2.0).above(0.5);
        odd.choose(span - rest.clone(), rest) + low
    }

    /// Whether an integral position lies within the axis.
    fn holds(&self, place: &Expr) -> Expr {
        place.clone().at_least(0.0).and(place.clone().at_most(self.size - 1.0))
    }
}

fn detached(expr: Expr) -> Expr {
    match expr {
        Expr::Tensor(tensor) => Expr::new(handled::detach(&tensor)),
        other => other,
    }
}

fn floor(expr: Expr) -> Expr {
    detached(expr).call(&FLOOR, [])
}

/// The taps along one axis: integral positions, and their weights.
fn taps(axis: &SampledDim, mode: Mode, coordinate: Expr) -> Vec<(Expr, Expr)> {
    let place = axis.place(coordinate);
    match mode {
        Mode::Nearest => {
            let near = detached(axis.inside(place.clone())).call(&ROUND, []);
            // The weight depends on the position all the same, with a gradient of zeros.
            let finite = place.clone().isfinite().choose(place, 0.0);
            vec![(near, finite * 0.0 + 1.0)]
        }
        Mode::Linear => {
            let place = axis.inside(place);
            let before = floor(place.clone());
            let part = place - before.clone();
            vec![(before.clone(), 1.0 - part.clone()), (before + 1.0, part)]
        }
        Mode::Cubic => {
            let before = floor(place.clone());
            let part = place - before.clone();
            let weights = cubic(part);
            let tap = |(at, weight): (usize, Expr)| {
                let place = detached(axis.inside(before.clone() + (at as f64 - 1.0)));
                (if axis.padding == Padding::Zeros { place } else { place.call(&ROUND, []) }, weight)
            };
            weights.into_iter().enumerate().map(tap).collect()
        }
    }
}

/// The weights of cubic convolution with -3/4, for the four elements around a position that is `t` after the second.
fn cubic(t: Expr) -> Vec<Expr> {
    const A: f64 = -0.75;
    let outer = |x: Expr| ((x.clone() * A - 5.0 * A) * x.clone() + 8.0 * A) * x - 4.0 * A;
    let inner = |x: Expr| (x.clone() * (A + 2.0) - (A + 3.0)) * x.square() + 1.0;
    vec![outer(t.clone() + 1.0), inner(t.clone()), inner(1.0 - t.clone()), outer(2.0 - t)]
}

fn sample(args: &Args, mode: Mode, padding: Padding, corners: bool) -> Result<Tensor> {
    use GRID_SAMPLE::*;

    let (input, grid) = (args.tensor(INPUT)?, args.tensor(GRID)?);
    let wanted = match args.op.name {
        "grid_sampler_2d" => 4,
        "grid_sampler_3d" => 5,
        _ if input.rank() == 4 => 4,
        _ => 5,
    };
    check(input, grid, mode, wanted)?;
    let (own, dims) = (input.sizes(), input.rank() - 2);
    let space = &own[2..];
    let wide = if input.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let (batch, places) = (own[0], grid.sizes()[1..=dims].iter().product::<isize>());
    let grid_wide = op!(crate::view::RESHAPE, &to_dtype(grid, wide)?, sizes_value(&[batch, places, dims as isize]))?;
    // The grid's first coordinate is that of the last dimension.
    let mut mixed: Vec<(Expr, Expr, Option<Expr>)> = Vec::new();
    for (dim, &size) in space.iter().enumerate() {
        let axis = SampledDim { size: size as f64, padding, corners, volume: dims == 3 };
        let coordinate = Expr::from(op!(SELECT, &grid_wide, -1i64, dims - 1 - dim)?);
        let along: Vec<_> = taps(&axis, mode, coordinate)
            .into_iter()
            .map(|(place, weight)| {
                let holds = axis.holds(&place);
                (place, weight, holds)
            })
            .collect();
        mixed = if dim == 0 {
            along.into_iter().map(|(place, weight, holds)| (place, weight, Some(holds))).collect()
        } else {
            let mut joined = Vec::with_capacity(mixed.len() * along.len());
            for (place, weight, holds) in mixed {
                for (next, other, inside) in &along {
                    let both = match &holds {
                        Some(holds) => holds.clone().and(inside.clone()),
                        None => inside.clone(),
                    };
                    joined.push((
                        place.clone() * size as f64 + next.clone(),
                        weight.clone() * other.clone(),
                        Some(both),
                    ));
                }
            }
            joined
        };
    }
    let (mut indices, mut weights) = (Vec::new(), Vec::new());
    for (place, weight, holds) in mixed {
        let place = match holds {
            Some(holds) => holds.choose(place, -1.0),
            None => place,
        };
        indices.push(place.done()?);
        weights.push(weight.done()?);
    }
    let stacked = |list: Vec<Tensor>| STACK.tensor([Value::from(list), (-1i64).into()]);
    let indices = to_dtype(&handled::detach(&stacked(indices)?)?, DType::I64)?;
    let planes = op!(crate::view::RESHAPE, input, sizes_value(&[batch, own[1], space.iter().product()]))?;
    let sampled = op!(MIX, &to_dtype(&planes, wide)?, &indices, &stacked(weights)?)?;
    let mut sizes = vec![batch, own[1]];
    sizes.extend(&grid.sizes()[1..=dims]);
    to_dtype(&op!(crate::view::RESHAPE, &sampled, sizes_value(&sizes))?, input.dtype())
}

/// Checks the operands of a function of images or volumes: their dimensions are `wanted` in torch's sentence.
fn check(input: &Tensor, grid: &Tensor, mode: Mode, wanted: usize) -> Result<()> {
    let (own, places) = (input.sizes(), grid.sizes());
    if own.is_empty() || places.is_empty() {
        return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
    }
    if own.len() < 2 || places.is_empty() || own[0] != places[0] {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and grid with sizes {}",
            Shape(own),
            Shape(places)
        )));
    }
    let dims = own.len() - 2;
    if places.last() != Some(&(dims as isize)) {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes {}",
            Shape(places)
        )));
    }
    if !(2..=3).contains(&dims) || places.len() != own.len() {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected {wanted}D input and grid with same number of dimensions, but got input with sizes {} and grid with sizes {}",
            Shape(own),
            Shape(places)
        )));
    }
    if mode == Mode::Cubic && dims != 2 {
        return Err(Error::runtime("grid_sampler(): bicubic interpolation only supports 4D input"));
    }
    if let Some(at) = (2..own.len()).find(|&at| own[at] == 0) {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {} with dimension {at} being empty",
            Shape(own)
        )));
    }
    if !input.dtype().is_floating() {
        let kernel = if dims == 3 { "grid_sampler3d_cpu" } else { "grid_sampler_2d_cpu_kernel_impl" };
        return Err(Error::unsupported(kernel, input.dtype()));
    }
    if grid.dtype() != input.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            input.dtype().display_name(),
            grid.dtype().display_name()
        )));
    }
    Ok(())
}

#[operator]
pub static GRID_SAMPLE: Operator = Operator {
    name: "grid_sample",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? align_corners=None) -> Tensor",
    doc: "Samples images or volumes at the points of a grid.

Shapes: input `(N, C, H, W)`, grid `(N, h, w, 2)` of points `(x, y)`, result `(N, C, h, w)`; or one dimension more of each. Coordinates
run from -1 to 1: between the outer edges, or with `align_corners` the centres, of the outermost elements. The mode is `\"bilinear\"`,
`\"nearest\"` or (of images) `\"bicubic\"`; outside the input the value is zero, or with the padding `\"border\"` or `\"reflection\"` taken from inside.

    >>> image = torch.tensor([[[[1., 2.], [3., 4.]]]])
    >>> torch.nn.functional.grid_sample(image, torch.tensor([[[[0., 0.], [1., 1.]]]]), align_corners=True)
    tensor([[[[2.5000, 4.0000]]]])",
    dtypes: DTypes::FLOATS,
    autocast: Autocasts { cpu: Autocast::Fp32, cuda: Autocast::Promote },
    implementation: Implementation::CompositeImplicit(|args| {
        let mode = match args.str(MODE)? {
            "bilinear" => Mode::Linear,
            "nearest" => Mode::Nearest,
            "bicubic" => Mode::Cubic,
            other => {
                return Err(Error::value(format!(
                    "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{other}'"
                )));
            }
        };
        let padding = match args.str(PADDING_MODE)? {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Reflection,
            other => {
                return Err(Error::value(format!(
                    "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{other}'"
                )));
            }
        };
        if !args.has(ALIGN_CORNERS) {
            interpreter::warn(
                "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.",
            )?;
        }
        let corners = args.optional_bool(ALIGN_CORNERS).unwrap_or(false);
        sample(args, mode, padding, corners).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(1, 2, 3, 4), unit(1, 2, 3, 2), align_corners=False",
        "t(2, 2, 3, 4), t(2, 2, 2, 2), padding_mode='border', align_corners=True",
        "t(1, 2, 3, 4), t(1, 2, 2, 2), 'bicubic', 'reflection', False",
        "t(1, 2, 3, 4), t(1, 2, 2, 2), 'nearest', align_corners=False",
        "t(1, 2, 2, 3, 2), t(1, 2, 1, 2, 3), 'bilinear', 'reflection', True",
    ],
    errors: &[
        (
            "t(1, 2, 3, 3), t(1, 2, 2, 3), align_corners=True",
            "RuntimeError",
            "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with sizes [1, 2, 2, 3]",
        ),
        (
            "t(1, 2, 3, 3), t(2, 2, 2, 2), align_corners=True",
            "RuntimeError",
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes [1, 2, 3, 3] and grid with sizes [2, 2, 2, 2]",
        ),
        (
            "t(1, 2, 3, 3), t(1, 2, 2, 2), 'x'",
            "ValueError",
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: 'x'",
        ),
        (
            "t(1, 2, 3, 3, 3), t(1, 2, 2, 2, 3), 'bicubic', align_corners=True",
            "RuntimeError",
            "grid_sampler(): bicubic interpolation only supports 4D input",
        ),
    ],
    reference: "",
    ..Operator::BASE
};

macro_rules! numbered {
    ($($op:ident $name:literal $samples:expr;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            node: "GridSampler2DBackward0",
            autocast: Autocast::Fp32.on_cpu_alone(),
            variants: Variants::FUNCTION,
            signature: "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
            doc: concat!(
                "`nn.functional.grid_sample` with numbers for its modes: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection.\n\n    >>> torch.",
                $name,
                "(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, True)\n    tensor([[[[1.]]]])"
            ),
            dtypes: DTypes::FLOATS,
            implementation: Implementation::CompositeImplicit(by_number),
            derivative: Derivative::CompositeImplicit,
            samples: $samples,
            errors: &[(
                "t(1, 2, 3, 3), t(1, 2, 2, 2), 7, 0, True",
                "RuntimeError",
                "grid_sampler(): no such interpolation_mode or padding_mode: 7, 0",
            )],
            reference: "",
            ..Operator::BASE
        };
    )*};
}

numbered! {
    GRID_SAMPLER "grid_sampler" &["t(1, 2, 3, 4), unit(1, 2, 3, 2), 0, 0, False"];
    GRID_SAMPLER_2D "grid_sampler_2d" &["t(1, 2, 3, 4), unit(1, 2, 3, 2), 2, 1, False"];
}

#[operator]
pub static GRID_SAMPLER_3D: Operator = Operator {
    name: "grid_sampler_3d",
    node: "GridSampler3DBackward0",
    doc: "`grid_sampler` of volumes.

    >>> torch.grid_sampler_3d(torch.ones(1, 1, 2, 2, 2), torch.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[1.]]]]])",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(by_number),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(1, 2, 2, 3, 2), t(1, 2, 1, 2, 3), 0, 2, True"],
    errors: &[(
        "t(1, 2, 3, 3, 2), t(1, 2, 2, 2, 3), 7, 0, True",
        "RuntimeError",
        "grid_sampler(): no such interpolation_mode or padding_mode: 7, 0",
    )],
    reference: "",
    ..Operator::BASE
};

fn by_number(args: &Args) -> Result<Output> {
    use GRID_SAMPLER::*;

    let (mode, padding) = (args.int(INTERPOLATION_MODE)?, args.int(PADDING_MODE)?);
    let mode_of = |mode| match mode {
        0 => Some(Mode::Linear),
        1 => Some(Mode::Nearest),
        2 => Some(Mode::Cubic),
        _ => None,
    };
    let padding_of = |padding| match padding {
        0 => Some(Padding::Zeros),
        1 => Some(Padding::Border),
        2 => Some(Padding::Reflection),
        _ => None,
    };
    let (Some(mode), Some(padding)) = (mode_of(mode), padding_of(padding)) else {
        // The shapes are checked before the modes.
        sample(args, mode_of(mode).unwrap_or(Mode::Linear), Padding::Zeros, args.bool(ALIGN_CORNERS)?)?;
        return Err(Error::runtime(format!(
            "grid_sampler(): no such interpolation_mode or padding_mode: {mode}, {padding}"
        ))
        .hint(
            "Modes are 0 (bilinear), 1 (nearest), 2 (bicubic); padding modes are 0 (zeros), 1 (border), 2 (reflection).",
        ));
    };
    sample(args, mode, padding, args.bool(ALIGN_CORNERS)?).map(Output::Tensor)
}

#[operator]
pub static AFFINE_GRID: Operator = Operator {
    name: "affine_grid_generator",
    node: "AffineGridGeneratorBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor theta, int[] size, bool align_corners) -> Tensor",
    doc: "A grid of points for `grid_sample` that transforms images of `size` by the affine maps `theta`.

Shapes: theta `(N, 2, 3)` for a size `(N, C, H, W)`, result `(N, H, W, 2)`; or `(N, 3, 4)` and one dimension more.

    >>> torch.affine_grid_generator(torch.eye(2, 3)[None], (1, 1, 1, 2), True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])",
    dtypes: DTypes::FLOATS,
    tags: Tags::LINEAR,
    implementation: Implementation::CompositeImplicit(|args| {
        let (theta, size, corners) = (args.tensor(THETA)?, args.ints(SIZE)?, args.bool(ALIGN_CORNERS)?);
        let dims = match size.len() {
            4 => 2usize,
            5 => 3,
            _ => {
                return Err(Error::runtime("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."));
            }
        };
        let space: Vec<isize> = size[2..].iter().map(|&n| n as isize).collect();
        let mut points = vec![size[0] as isize];
        points.extend(&space);
        points.push(dims as isize + 1);
        checked_new(&points)?;
        // torch makes a line of one point from a number, which it does not for these dtypes.
        let lacks = space.contains(&1) && (theta.dtype().is_half() || !DTypes::NUMBERS.has(theta.dtype()));
        let in_order = |error: Error| if lacks { Error::unsupported("tensor_cpu", theta.dtype()) } else { error };
        // Allocated first: a grid that does not fit in memory is refused at once.
        let base = create::empty(&points[1..], theta.dtype(), theta.device())?;
        let column = |at: usize| Tensor::view_of(&base, base.layout().select(dims, at as isize));
        for dim in 0..dims {
            let count = space[dim];
            let edge = if corners || count < 1 { 1.0 } else { (count as f64 - 1.0) / count as f64 };
            let line = if count == 1 {
                create::zeros(&[1], theta.dtype(), theta.device())?
            } else {
                let ends = [Value::from(-edge), edge.into(), (count as i64).into(), theta.dtype().into()];
                let [start, end, steps, dtype] = ends;
                crate::create::range::LINSPACE.tensor([
                    start,
                    end,
                    steps,
                    dtype,
                    Value::None,
                    Value::Device(theta.device()),
                ])?
            };
            let mut shape = vec![1; dims];
            shape[dim] = count;
            let line = op!(crate::view::RESHAPE, &line, sizes_value(&shape))?;
            let whole = op!(crate::view::expand::EXPAND, &line, sizes_value(&space))?;
            copy::copy(&column(dims - 1 - dim), &whole)?;
        }
        create::fill(&column(dims), Scalar::ONE)?;
        let base = op!(crate::view::RESHAPE, &base, sizes_value(&[1, -1, dims as isize + 1]))?;
        let base = op!(crate::view::expand::EXPAND, &base, sizes_value(&[size[0] as isize, -1, -1]))?;
        let maps = op!(crate::view::transpose::TRANSPOSE, theta, 1i64, 2i64).map_err(in_order)?;
        let grid = op!(crate::linalg::matrix::BMM, &base, &maps).map_err(in_order)?;
        points[dims + 1] = dims as isize;
        op!(crate::view::RESHAPE, &grid, sizes_value(&points)).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 2, 3), (2, 1, 2, 3), False", "t(1, 3, 4), (1, 1, 2, 1, 3), True"],
    errors: &[
        (
            "t(2, 2, 3), (1, 1, 2, 2), False",
            "RuntimeError",
            "Expected size for first two dimensions of batch2 tensor to be: [1, 3] but got: [2, 3].",
        ),
        (
            "t(1, 2, 3), (1, 1, 2), False",
            "RuntimeError",
            "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.",
        ),
    ],
    reference: "",
    ..Operator::BASE
};
