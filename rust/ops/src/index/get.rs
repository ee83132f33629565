//! Reading by indices.

use rushlight_core::Result;

use super::geometry::{Cut, check_room};
use crate::Tensor;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::Ints;

/// Behind `x[i, j]`.
pub static INDEX: Row = Row {
    name: "_index",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor[] indices, int[] dims) -> Tensor",
    doc: "The elements at `indices`, which index the dimensions `dims` and broadcast against each other.

    >>> torch._index(torch.tensor([[1, 2], [3, 4]]), (torch.tensor([0, 1]), torch.tensor([1, 1])), (0, 1))
    tensor([2, 4])",
    dtypes: DTypes::ALL,
    mapped: Mapped::Rule(super::mapped::get),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let cut = Cut::new(own, &args.tensors(1)?, args.ints(2)?)?;
            check_room(own, &cut.dims, &cut.common)?;
            Ok(vec![Spec { layout: cut.result(own), dtype: own.dtype(), device: own.device() }])
        },
        cpu: |args, results| {
            let own = args.tensor(0)?;
            let cut = Cut::new(own, &args.tensors(1)?, args.ints(2)?)?;
            if results[0].layout().is_contiguous() {
                return get_into(own, &cut, &results[0]);
            }
            let plain = crate::create::empty(results[0].sizes(), own.dtype(), own.device())?;
            get_into(own, &cut, &plain)?;
            crate::copy::copy(&results[0], &plain)
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(1), |d| match indices(d) {
        Ok((indices, dims)) => {
            let zeros = d.facts(0).map(|facts| crate::create::zeros(&facts.sizes, facts.dtype, facts.device));
            match (zeros, d.grad()) {
                (Some(Ok(zeros)), Expr::Tensor(grad)) => Expr::new(op!(super::PUT, zeros, indices, dims, grad, true)),
                (Some(Err(error)), _) => Expr::failed(error),
                (_, grad) => grad,
            }
        }
        Err(error) => Expr::failed(error),
    })]),
    samples: &["t(4, 3), (i(4, 5),), (0,)", "t(4, 3, 5), (i(4, 2, 1), i(5, 3)), (0, 2)", "t(4, 3), (i(3, 2),), (1,)"],
    ..Row::BASE
};

/// The kept indices of a call and the dimensions that they index.
pub fn indices(d: &Derive) -> Result<(Vec<Tensor>, Ints)> {
    let kept = d
        .list(1)
        .into_iter()
        .map(|index| index.cloned().ok_or_else(|| rushlight_core::Error::runtime("an index was not kept")));
    Ok((kept.collect::<Result<_>>()?, d.ints(2).into()))
}

/// Fills a fresh row-major result.
pub fn get_into(own: &Tensor, cut: &Cut, result: &Tensor) -> Result<()> {
    if result.numel() == 0 {
        // Nothing is read, so no index is outside.
        return Ok(());
    }
    let offsets = cut.offsets(own)?;
    let (source, out) = (own.storage().pin()?, result.storage().pin()?);
    // SAFETY: offsets were checked, the result is fresh and row-major.
    unsafe {
        rushlight_cpu::index::get(
            out.as_ptr(),
            source.as_ptr(),
            &cut.frame(own.layout()),
            &offsets,
            own.dtype().size(),
        );
    }
    Ok(())
}
