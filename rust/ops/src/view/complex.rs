//! Complex numbers as pairs of real ones, and the inverse; their parts and conjugates as views.

use rushlight_autograd::{Form, Tensor, TensorMeta};
use rushlight_core::{DType, Error, Layout, Result};
use rushlight_dispatch::call::resolve_conj::resolve;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Tags, Variants, formula,
    operator,
};
use rushlight_dispatch::value::Output;

use crate::expr_ext::ExprExt;
use crate::view::narrow::SELECT;

#[operator]
pub static VIEW_AS_REAL: Operator = Operator {
    name: "view_as_real",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as pairs of real ones, in a new last dimension of size two.

    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])",
    dtypes: DTypes::COMPLEX.union(DTypes::COMPLEX32),
    tags: Tags::STRIDE_DEPENDENT,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::ViewDtype(|args| {
        let input = args.tensor(INPUT)?;
        if !input.dtype().is_complex() {
            return Err(Error::runtime("view_as_real is only supported for complex tensors"));
        }
        if input.is_lazy_conj() {
            return Err(Error::runtime(
                "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original.",
            ));
        }
        Ok(TensorMeta { dtype: input.dtype().to_real(), ..input.meta_with(input.layout().pairs()) })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        match d.grad().done().and_then(|grad| crate::convert::contiguous(&grad)) {
            Ok(grad) => Expr::from(grad).call(&VIEW_AS_COMPLEX, []),
            Err(error) => Expr::failed(error),
        }
    })]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.stack((self.real, self.imag), -1)",
    ..Operator::BASE
};

#[operator]
pub static VIEW_AS_COMPLEX: Operator = Operator {
    name: "view_as_complex",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of pairs of real numbers, the last dimension, as complex ones.

    >>> torch.view_as_complex(torch.tensor([[1., 2.]]))
    tensor([1.+2.j])",
    dtypes: DTypes::of(&[DType::F16, DType::F32, DType::F64]),
    autocast: Autocast::Fp32.on_cpu_alone(),
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::ViewDtype(|args| {
        let input = args.tensor(INPUT)?;
        if input.is_lazy_conj() {
            return Err(Error::runtime(
                "view_as_complex doesn't work on unresolved negatives: self.resolve_neg() first",
            ));
        }
        let dtype = match input.dtype() {
            DType::F16 | DType::F32 | DType::F64 => input.dtype().to_complex(),
            other => {
                return Err(Error::runtime(format!(
                    "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
                    other.display_name()
                ))
                .hint("Convert it first: x.float()."));
            }
        };
        Ok(TensorMeta { dtype, ..input.meta_with(paired(input.layout())?) })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().call(&VIEW_AS_REAL, []))]),
    samples: &["t(3, 2)", "t(2)"],
    errors: &[
        ("t(3)", "RuntimeError", "Tensor must have a last dimension of size 2"),
        ("t()", "RuntimeError", "Input tensor must have one or more dimensions"),
    ],
    reference: "self[..., 0] + 1j * self[..., 1]",
    ..Operator::BASE
};

fn paired(own: &Layout) -> Result<Layout> {
    let mut view = own.clone();
    let Some(pair) = view.sizes.pop() else {
        return Err(Error::runtime("Input tensor must have one or more dimensions"));
    };
    if pair != 2 {
        return Err(Error::runtime("Tensor must have a last dimension of size 2"));
    }
    if view.strides.pop() != Some(1) {
        return Err(Error::runtime("Tensor must have a last dimension with stride 1"));
    }
    if view.strides.iter().any(|stride| stride % 2 != 0) {
        return Err(Error::runtime("Tensor must have a stride divisible by 2 for all but last dimension"));
    }
    if view.offset % 2 != 0 {
        return Err(Error::runtime("Tensor must have a storage_offset divisible by 2"));
    }
    view.strides.iter_mut().for_each(|stride| *stride /= 2);
    view.offset /= 2;
    Ok(view)
}

#[operator]
pub static REAL: Operator = Operator {
    name: "real",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of the real parts; a real tensor is returned itself.

    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if !input.dtype().is_complex() {
            return Ok(Output::Tensor(input.clone()));
        }
        if input.is_lazy_conj() {
            return op!(REAL, op!(LAZY_CONJ, input)?).map(Output::Tensor);
        }
        op!(SELECT, op!(VIEW_AS_REAL, input)?, -1i64, 0i64).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)"],
    reference: "np.real(self)",
    ..Operator::BASE
};

#[operator]
pub static IMAG: Operator = Operator {
    name: "imag",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of the imaginary parts.

    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])",
    dtypes: DTypes::COMPLEX.union(DTypes::COMPLEX32),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if !input.dtype().is_complex() {
            return Err(Error::runtime("imag is not implemented for tensors with non-complex dtypes."));
        }
        if input.is_lazy_conj() {
            return op!(LAZY_NEG, op!(IMAG, op!(LAZY_CONJ, input)?)?).map(Output::Tensor);
        }
        op!(SELECT, op!(VIEW_AS_REAL, input)?, -1i64, 1i64).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)"],
    reference: "np.imag(self)",
    ..Operator::BASE
};

/// The opposite mark on the same elements.
fn turned(args: &Args) -> Result<TensorMeta> {
    let input = args.tensor(LAZY_CONJ::INPUT)?;
    let form = if input.is_lazy_conj() { Form::Plain } else { Form::LazyConj };
    Ok(TensorMeta { form, ..input.meta().clone() })
}

#[operator]
pub static LAZY_CONJ: Operator = Operator {
    name: "_conj",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as their conjugates, which are computed when they are read.

    >>> torch._conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])",
    dtypes: DTypes::COMPLEX.union(DTypes::COMPLEX32),
    tags: Tags::STRIDE_DEPENDENT,
    batch_rule: BatchRule::Substitute(&crate::pointwise::complex::CONJ_AT_ONCE),
    implementation: Implementation::ViewDtype(turned),
    check: Some(|args| match args.tensor(INPUT)?.dtype() {
        dtype if dtype.is_complex() => Ok(()),
        dtype => Err(Error::runtime(format!("_conj is only supported for complex tensors, not for {dtype}"))),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().conj())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Operator::BASE
};

#[operator]
pub static LAZY_NEG: Operator = Operator {
    name: "_neg_view",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc:
        "A view of real numbers as their negatives, which are computed when they are read, like the imaginary parts of a
conjugate are.

    >>> torch._neg_view(torch.tensor([1., -2.]))
    tensor([-1.,  2.])",
    dtypes: DTypes::FLOATS,
    tags: Tags::STRIDE_DEPENDENT,
    batch_rule: BatchRule::Substitute(&crate::pointwise::arith::NEG),
    implementation: Implementation::ViewDtype(turned),
    check: Some(|args| match args.tensor(INPUT)?.dtype() {
        dtype if dtype.is_floating() => Ok(()),
        dtype => {
            Err(Error::runtime(format!("_neg_view is only supported for floating-point tensors, not for {dtype}")))
        }
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| -d.grad())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.negative(self)",
    ..Operator::BASE
};

#[operator]
pub static CONJ: Operator = Operator {
    name: "conj",
    signature: "(Tensor self) -> Tensor",
    doc: "A view of complex numbers as their conjugates, computed when they are read; a real tensor is returned itself.

    >>> x = torch.tensor([1 + 2j])
    >>> y = torch.conj(x)
    >>> y[0] = 3 + 4j
    >>> x
    tensor([3.-4.j])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| conjugate(args.tensor(INPUT)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t()"],
    reference: "np.conj(self)",
    ..Operator::BASE
};

/// The conjugates as a view, those of a sparse tensor as a copy; a real tensor is unchanged.
pub fn conjugate(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype().is_complex() {
        true if tensor.is_sparse() => op!(crate::pointwise::complex::CONJ_AT_ONCE, tensor),
        true => op!(LAZY_CONJ, tensor),
        false => Ok(tensor.clone()),
    }
}

#[operator]
pub static RESOLVE_CONJ: Operator = Operator {
    name: "resolve_conj",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor with its conjugates computed: a copy if it is a conjugate view, else the tensor itself.

    >>> torch.tensor([1 + 2j]).conj().resolve_conj().is_conj()
    False",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.dtype().is_complex() { resolve(input) } else { Ok(input.clone()) }.map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t()"],
    reference: "self",
    ..Operator::BASE
};

#[operator]
pub static RESOLVE_NEG: Operator = Operator {
    name: "resolve_neg",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor with its negatives computed: a copy if it is a negative view, else the tensor itself.

    >>> torch.tensor([1 + 2j]).conj().imag.resolve_neg()
    tensor([-2.])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.dtype().is_complex() { Ok(input.clone()) } else { resolve(input) }.map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t()"],
    reference: "self",
    ..Operator::BASE
};

/// A complex tensor's elements as pairs of real numbers, in a new last dimension.
pub fn pairs(tensor: &Tensor) -> Tensor {
    let layout = tensor.layout().pairs();
    Tensor::new(tensor.storage().clone(), layout, tensor.dtype().to_real(), tensor.device())
}
