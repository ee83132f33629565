//! Normalisation by what neighbouring channels hold.

use rushlight_core::{DType, Error};

use crate::autocast;
use crate::convert::to_dtype;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::pointwise::divide::DIV_TRUNC;
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Ints, Output};

pub static LOCAL_RESPONSE_NORM: Row = Row {
    name: "local_response_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
    doc: "Divides each channel by a power of what `size` neighbouring channels hold.

    out = input / (k + alpha * mean(squares of neighbours)) ** beta

    >>> torch.nn.functional.local_response_norm(torch.tensor([[[2.], [4.]]]), 2, alpha=1., beta=1.)
    tensor([[[0.6667],
             [0.3636]]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, size) = (args.tensor(0)?, args.int(1)?);
        if own.rank() < 3 {
            return Err(Error::value(format!(
                "Expected 3D or higher dimensionality                          input (got {} dimensions)",
                own.rank()
            )));
        }
        if size <= 0 {
            return Err(Error::runtime("kernel size should be greater than zero"));
        }
        if own.numel() == 0 {
            return Ok(Output::Tensor(own.clone()));
        }
        if !own.dtype().is_floating() && own.dtype() != DType::I64 {
            let kernel = if own.rank() == 3 { "avg_pool2d" } else { "avg_pool3d_out_frame" };
            return Err(Error::unsupported(kernel, own.dtype()));
        }
        // Zeros before and behind the channels, where neighbours are missing.
        let mut pad: Ints = std::iter::repeat_n(0, 2 * (own.rank() - 2)).collect();
        pad.extend([size / 2, (size - 1) / 2]);
        let squares = Expr::from(own).square();
        // torch averages squares of images and volumes as volumes, which mixed precision does in float32.
        let single = autocast::lower().is_some() && own.rank() > 3 && own.dtype().is_half();
        let squares = if single { Expr::new(to_dtype(&squares.done()?, DType::F32)) } else { squares };
        let squares = squares.call(&crate::join::pad::CONSTANT_PAD, [pad.into()]);
        let windows = squares.call(&crate::view::unfold::UNFOLD, [1i64.into(), size.into(), 1i64.into()]);
        let last = Ints::from_slice(&[-1]);
        let mean = if own.dtype().is_floating() {
            windows.call(&MEAN_DIM, [last.into()])
        } else {
            windows.call(&SUM_DIM, [last.into()]).with(&DIV_TRUNC, size)
        };
        let divisor = (mean * args.float(2)? + args.float(4)?).with(&crate::pointwise::power::POW, args.float(3)?);
        (Expr::from(own) / divisor).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 4, 3), 2", "t(2, 5, 2, 2), 3, 1.0, 0.5, 2.0"],
    errors: &[(
        "t(2, 3), 2",
        "ValueError",
        "Expected 3D or higher dimensionality                          input (got 2 dimensions)",
    )],
    reference: "",
    ..Row::BASE
};
