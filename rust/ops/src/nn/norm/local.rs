//! Local response normalisation: by the values of neighbouring channels.

use rushlight_core::{DType, Error};
use rushlight_dispatch::autocast;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};

use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::pointwise::divide::DIV_TRUNC;
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};

#[operator]
pub static LOCAL_RESPONSE_NORM: Operator = Operator {
    name: "local_response_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
    doc: "Divides each channel by a power of the mean square of `size` neighbouring channels.

    out = input / (k + alpha * mean(squares of neighbours)) ** beta

    >>> torch.nn.functional.local_response_norm(torch.tensor([[[2.], [4.]]]), 2, alpha=1., beta=1.)
    tensor([[[0.6667],
             [0.3636]]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, size) = (args.tensor(INPUT)?, args.int(SIZE)?);
        if input.rank() < 3 {
            return Err(Error::value(format!(
                "Expected 3D or higher dimensionality                          input (got {} dimensions)",
                input.rank()
            )));
        }
        if size <= 0 {
            return Err(Error::runtime("kernel size should be greater than zero"));
        }
        if input.numel() == 0 {
            return Ok(Output::Tensor(input.clone()));
        }
        if !input.dtype().is_floating() && input.dtype() != DType::I64 {
            let kernel = if input.rank() == 3 { "avg_pool2d" } else { "avg_pool3d_out_frame" };
            return Err(Error::unsupported(kernel, input.dtype()));
        }
        // Zeros before and behind the channels replace missing neighbours.
        let mut pad: Ints = std::iter::repeat_n(0, 2 * (input.rank() - 2)).collect();
        pad.extend([size / 2, (size - 1) / 2]);
        let squares = Expr::from(input).square();
        // torch averages squares of images and volumes with volume pooling, which mixed precision does in float32.
        let single =
            autocast::lower(autocast::Processor::Host).is_some() && input.rank() > 3 && input.dtype().is_half();
        let squares = if single { Expr::new(to_dtype(&squares.done()?, DType::F32)) } else { squares };
        let squares = squares.call(&crate::join::pad::CONSTANT_PAD, [pad.into()]);
        let windows = squares.call(&crate::view::unfold::UNFOLD, [1i64.into(), size.into(), 1i64.into()]);
        let last = Ints::from_slice(&[-1]);
        let mean = if input.dtype().is_floating() {
            windows.call(&MEAN_DIM, [last.into()])
        } else {
            windows.call(&SUM_DIM, [last.into()]).with(&DIV_TRUNC, size)
        };
        let divisor =
            (mean * args.float(ALPHA)? + args.float(K)?).with(&crate::pointwise::power::POW, args.float(BETA)?);
        (Expr::from(input) / divisor).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 4, 3), 2", "t(2, 5, 2, 2), 3, 1.0, 0.5, 2.0"],
    errors: &[(
        "t(2, 3), 2",
        "ValueError",
        "Expected 3D or higher dimensionality                          input (got 2 dimensions)",
    )],
    reference: "",
    ..Operator::BASE
};
