//! Diagonals read and made.

use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Result, Scalar};

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::Output;
use crate::view::diagonal::{DIAGONAL, diagonal};

pub static DIAG_EMBED: Row = Row {
    name: "diag_embed",
    signature: "(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    doc: "Matrices of zeros with the last dimension of `self` on their diagonals.

    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(super::mapped::diag_embed),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let rank = own.rank() + 1;
            let (first, second) = (args.int(2)?, args.int(3)?);
            let (a, b) = (wrap_dim(first, rank)?, wrap_dim(second, rank)?);
            if a == b {
                return Err(Error::runtime(format!("diagonal dimensions cannot be identical {first}, {second}"))
                    .hint("dim1 and dim2 are two dimensions, such as -2 and -1."));
            }
            let mut sizes = own.sizes().clone();
            let reach = isize::try_from(args.int(1)?.unsigned_abs()).unwrap_or(isize::MAX);
            let length = sizes.pop().unwrap_or(1).saturating_add(reach);
            sizes.insert(a.min(b), length);
            sizes.insert(a.max(b), length);
            rushlight_core::layout::checked_new(&sizes)?;
            Ok(vec![Spec::new(&sizes, own.dtype(), own)])
        },
        cpu: |args, results| {
            let whole = &results[0];
            crate::create::fill(whole, Scalar::ZERO)?;
            crate::copy::copy_to_view(whole, &diagonal(whole.layout(), args)?, args.tensor(0)?)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        d.grad().call(&DIAGONAL, [d.int(1).into(), d.int(2).into(), d.int(3).into()])
    })]),
    samples: &["t(3)", "t(2, 3), 1", "t(2, 3), -2, 0, 2"],
    errors: &[("t(3), 0, 0, 0", "RuntimeError", "diagonal dimensions cannot be identical 0, 0")],
    ..Row::BASE
};

pub static DIAG: Row = Row {
    name: "diag",
    node: "DiagonalBackward0_copy",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int diagonal=0) -> Tensor",
    doc: "A vector on the diagonal of a matrix, or a matrix's diagonal as a vector, copied.

    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    out: Out::STRICT,
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let (own, offset) = (args.tensor(0)?, args.int(1)?);
        match own.rank() {
            1 => op!(DIAG_EMBED, own, offset),
            2 => op!(crate::convert::CLONE, op!(DIAGONAL, own, offset)?),
            rank => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {rank}D"))),
        }
        .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(3)", "t(3, 4), 1", "t(3), -1"],
    errors: &[("t(2, 2, 2)", "RuntimeError", "diag(): Supports 1D or 2D tensors. Got 3D")],
    reference: "np.diag(self, diagonal)",
    ..Row::BASE
};

pub static DIAGFLAT: Row = Row {
    name: "diagflat",
    signature: "(Tensor self, int offset=0) -> Tensor",
    doc: "All elements on the diagonal of a matrix.

    >>> torch.diagflat(torch.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let row = op!(crate::view::RESHAPE, args.tensor(0)?, crate::view::reshape::sizes_value(&[-1]))?;
        op!(DIAG_EMBED, row, args.int(1)?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 2)", "t(3), 1"],
    errors: &[(
        "t(2, 2), 2**62",
        "RuntimeError",
        "Storage size calculation overflowed with sizes=[4611686018427387908, 4611686018427387908]",
    )],
    reference: "np.diagflat(self, offset)",
    ..Row::BASE
};

pub static BLOCK_DIAG: Row = Row {
    name: "block_diag",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] *tensors) -> Tensor",
    doc: "Matrices one after the other along the diagonal, zeros elsewhere; a vector is a row.

    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([3]))
    tensor([[1, 2, 0],
            [0, 0, 3]])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let tensors = args.tensors(0)?;
        if tensors.is_empty() {
            let device = rushlight_core::Device::Cpu;
            return crate::create::zeros(&[1, 0], rushlight_core::dtype::default_dtype(), device).map(Output::Tensor);
        }
        if let Some((at, tensor)) = tensors.iter().enumerate().find(|(_, tensor)| tensor.rank() > 2) {
            return Err(Error::runtime(format!(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {at} has {} dimensions",
                tensor.rank()
            )));
        }
        let dtype = super::cat::common(&tensors)?;
        let blocks = tensors.into_iter().map(crate::view::flatten::atleast_2d).collect::<Result<Vec<_>>>()?;
        let widths = blocks.iter().map(|block| block.sizes()[1]);
        let total = widths.clone().try_fold(0isize, isize::checked_add);
        let total =
            total.ok_or_else(|| Error::runtime("torch.block_diag: widths add up to more than a tensor can have"))?;
        let mut before = 0;
        let mut bands = Vec::with_capacity(blocks.len());
        for block in blocks {
            let (width, device) = (block.sizes()[1], block.device());
            let side = |width: isize| crate::create::zeros(&[block.sizes()[0], width], dtype, device);
            let row = vec![side(before)?, block.clone(), side(total - before - width)?];
            bands.push(op!(super::CAT, row, 1i64)?);
            before += width;
        }
        op!(super::CAT, bands, 0i64).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["[t(2, 3), t(2)]", "[t(), t(2, 2)]"],
    errors: &[(
        "t(2,2,2)",
        "RuntimeError",
        "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions",
    )],
    ..Row::BASE
};
