//! The elementwise part of a step, and its gradient, fused. A gradient that is recorded is composed.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Element, Error, Result};
use rushlight_cpu::float::Float;
use rushlight_cpu::nn::recurrent::gates::{gru, gru_back, lstm, lstm_back};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Joint, Kernel, OnCuda, Operator,
    Saves, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Value};
use rushlight_dispatch::variants::check_cast;

use super::on_cuda;
use crate::expr_ext::ExprExt;

#[operator]
pub static LSTM_GATES: Operator = Operator {
    name: "_lstm_gates",
    variants: Variants::FUNCTION,
    signature: "(Tensor gates, Tensor cx) -> (Tensor, Tensor)",
    doc:
        "The next hidden and cell state of a long short-term memory, from the gates `(N, 4 * H)` and the cell state `(N, H)`.

    >>> torch._lstm_gates(torch.zeros(1, 4), torch.ones(1, 1))
    (tensor([[0.2311]]), tensor([[0.5000]]))",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Promote.everywhere(),
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let cx = args.tensor(CX)?;
            check(args, &[(GATES, 4)], cx)?;
            let spec = TensorSpec::new(cx.sizes(), args.tensor(GATES)?.dtype(), cx);
            Ok(vec![spec.clone(), spec])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_lstm::<f32>(args, results),
            DType::F64 => run_lstm::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm_cell", dtype)),
        },
        cuda: OnCuda::Own(|args, results| on_cuda::lstm_gates([args.tensor(GATES)?, args.tensor(CX)?], results)),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[GATES, CX],
        saves: Saves::input(GATES).union(Saves::input(CX)).union(Saves::result(1)),
        gradients: gradients_of_lstm,
    }),
    samples: &["t(2, 12), t(2, 3)"],
    errors: &[("t(2, 3), t(2, 3)", "RuntimeError", "gates of [2, 3] do not fit a state of [2, 3]")],
    reference: "(lambda s, g: (lambda c: (s(g[3]) * np.tanh(c), c))(s(g[1]) * cx + s(g[0]) * np.tanh(g[2])))(lambda x: 1 / (1 + np.exp(-x)), np.split(gates, 4, -1))",
    ..Operator::BASE
};

/// Fused, unless the gradient itself is recorded.
fn gradients_of_lstm(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use LSTM_GATES::*;

    if !rushlight_autograd::modes::recording() {
        return fused(&LSTM_GATES_BACKWARD, [d.grad(), d.grad_of(1), d.input(GATES), d.input(CX), d.result_of(1)]);
    }
    let [i, f, g, o] = parts(d.input(GATES).done()?)?;
    let (i, f, g, o) = (i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid());
    let tanh = d.result_of(1).tanh();
    // The gradient of the next cell state: directly, and through the hidden state.
    let through = d.grad() * o.clone() * (1.0 - tanh.clone().square());
    let to_cy = if d.has_grad(1) { through + d.grad_of(1) } else { through };
    let slope = |gate: Expr| gate.clone() * (1.0 - gate);
    let gates = [
        to_cy.clone() * g.clone() * slope(i.clone()),
        to_cy.clone() * d.input(CX) * slope(f.clone()),
        to_cy.clone() * i * (1.0 - g.square()),
        d.grad() * tanh * slope(o),
    ];
    Ok(vec![Some(joined(gates.into())?), Some((to_cy * f).done()?)])
}

/// The gradients that one operator computes.
fn fused<const N: usize>(operator: &'static Operator, operands: [Expr; N]) -> Result<Vec<Option<Tensor>>> {
    let operands = operands.into_iter().map(|operand| Ok(operand.done()?.into())).collect::<Result<Vec<Value>>>()?;
    Ok(Args::new(operator, operands).call()?.into_tensors().into_iter().map(Some).collect())
}

/// The operator behind the gradient. Its own derivative is needed only if the gradient is recorded, and then the gradient is composed
/// instead.
#[operator]
pub static LSTM_GATES_BACKWARD: Operator = Operator {
    name: "_lstm_gates_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_hy, Tensor grad_cy, Tensor gates, Tensor cx, Tensor cy) -> (Tensor, Tensor)",
    doc: "The gradients of the operands of `_lstm_gates`, from those of its results and the next cell state, all `(N, H)` but the gates.

    >>> zeros = torch.zeros(1, 1)
    >>> torch._lstm_gates_backward(zeros, torch.ones(1, 1), torch.zeros(1, 4), zeros, zeros)[1]
    tensor([[0.5000]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let cx = args.tensor(CX)?;
            check(args, &[(GRAD_HY, 1), (GRAD_CY, 1), (CY, 1), (GATES, 4)], cx)?;
            Ok([args.tensor(GATES)?, cx].map(|operand| TensorSpec::new(operand.sizes(), operand.dtype(), operand)).into())
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_lstm_back::<f32>(args, results),
            DType::F64 => run_lstm_back::<f64>(args, results),
            dtype => Err(Error::unsupported("lstm_cell", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let (grads, operands) = ([args.tensor(GRAD_HY)?, args.tensor(GRAD_CY)?], [args.tensor(GATES)?, args.tensor(CX)?]);
            on_cuda::lstm_gates_back([grads[0], grads[1], operands[0], operands[1], args.tensor(CY)?], results)
        }),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of the gates is composed"),
    samples: &["t(2, 3), t(2, 3), t(2, 12), t(2, 3), t(2, 3)"],
    errors: &[(
        "t(2, 2), t(2, 3), t(2, 12), t(2, 3), t(2, 3)",
        "RuntimeError",
        "gates of [2, 2] do not fit a state of [2, 3]",
    )],
    reference: "(lambda i, f, g, o, c: (lambda s: (np.concatenate([s * g * i * (1 - i), s * cx * f * (1 - f), s * i * (1 - g * g), grad_hy * c * o * (1 - o)], -1), s * f))(grad_cy + grad_hy * o * (1 - c * c)))(*(lambda s, g: (s(g[0]), s(g[1]), np.tanh(g[2]), s(g[3])))(lambda x: 1 / (1 + np.exp(-x)), np.split(gates, 4, -1)), np.tanh(cy))",
    ..Operator::BASE
};

#[operator]
pub static GRU_GATES: Operator = Operator {
    name: "_gru_gates",
    variants: Variants::FUNCTION,
    signature: "(Tensor input_gates, Tensor hidden_gates, Tensor hx) -> Tensor",
    doc: "The next hidden state of a gated recurrent unit, from the gates `(N, 3 * H)` of input and hidden state, and the hidden state
`(N, H)`.

    >>> torch._gru_gates(torch.zeros(1, 3), torch.zeros(1, 3), torch.ones(1, 1))
    tensor([[0.5000]])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::Promote.everywhere(),
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let hx = args.tensor(HX)?;
            check(args, &[(INPUT_GATES, 3), (HIDDEN_GATES, 3)], hx)?;
            Ok(vec![TensorSpec::new(hx.sizes(), args.tensor(INPUT_GATES)?.dtype(), hx)])
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_gru::<f32>(args, &results[0]),
            DType::F64 => run_gru::<f64>(args, &results[0]),
            dtype => Err(Error::unsupported("gru_cell", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let operands = [args.tensor(INPUT_GATES)?, args.tensor(HIDDEN_GATES)?, args.tensor(HX)?];
            on_cuda::gru_gates(operands, &results[0])
        }),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT_GATES, HIDDEN_GATES, HX],
        saves: Saves::input(INPUT_GATES).union(Saves::input(HIDDEN_GATES)).union(Saves::input(HX)),
        gradients: gradients_of_gru,
    }),
    samples: &["t(2, 9), t(2, 9), t(2, 3)"],
    errors: &[("t(2, 3), t(2, 9), t(2, 3)", "RuntimeError", "gates of [2, 3] do not fit a state of [2, 3]")],
    reference: "(lambda s, x, h: (lambda z, n: (hx - n) * z + n)(s(x[1] + h[1]), np.tanh(x[2] + s(x[0] + h[0]) * h[2])))(lambda x: 1 / (1 + np.exp(-x)), np.split(input_gates, 3, -1), np.split(hidden_gates, 3, -1))",
    ..Operator::BASE
};

/// Fused, unless the gradient itself is recorded.
fn gradients_of_gru(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use GRU_GATES::*;

    if !rushlight_autograd::modes::recording() {
        return fused(&GRU_GATES_BACKWARD, [d.grad(), d.input(INPUT_GATES), d.input(HIDDEN_GATES), d.input(HX)]);
    }
    let [xr, xz, xn] = parts(d.input(INPUT_GATES).done()?)?;
    let [hr, hz, hn] = parts(d.input(HIDDEN_GATES).done()?)?;
    let (r, z) = ((xr + hr).sigmoid(), (xz + hz).sigmoid());
    let n = (xn + r.clone() * hn.clone()).tanh();
    let slope = |gate: Expr| gate.clone() * (1.0 - gate);
    let to_n = d.grad() * (1.0 - z.clone()) * (1.0 - n.clone().square());
    let to_z = d.grad() * (d.input(HX) - n) * slope(z.clone());
    let to_r = to_n.clone() * hn * slope(r.clone());
    let input = joined(vec![to_r.clone(), to_z.clone(), to_n.clone()])?;
    let hidden = joined(vec![to_r, to_z, to_n * r])?;
    Ok(vec![Some(input), Some(hidden), Some((d.grad() * z).done()?)])
}

/// The operator behind the gradient. Its own derivative is needed only if the gradient is recorded, and then the gradient is composed
/// instead.
#[operator]
pub static GRU_GATES_BACKWARD: Operator = Operator {
    name: "_gru_gates_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor input_gates, Tensor hidden_gates, Tensor hx) -> (Tensor, Tensor, Tensor)",
    doc: "The gradients of the operands of `_gru_gates`, from that of its result `(N, H)`.

    >>> zeros = torch.zeros(1, 3)
    >>> torch._gru_gates_backward(torch.ones(1, 1), zeros, zeros, torch.ones(1, 1))[2]
    tensor([[0.5000]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Items,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let hx = args.tensor(HX)?;
            check(args, &[(GRAD, 1), (INPUT_GATES, 3), (HIDDEN_GATES, 3)], hx)?;
            let operands = [args.tensor(INPUT_GATES)?, args.tensor(HIDDEN_GATES)?, hx];
            Ok(operands.iter().map(|operand| TensorSpec::new(operand.sizes(), operand.dtype(), operand)).collect())
        },
        cpu: |args, results| match results[0].dtype().compute() {
            DType::F32 => run_gru_back::<f32>(args, results),
            DType::F64 => run_gru_back::<f64>(args, results),
            dtype => Err(Error::unsupported("gru_cell", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let gates = [args.tensor(INPUT_GATES)?, args.tensor(HIDDEN_GATES)?];
            on_cuda::gru_gates_back([args.tensor(GRAD)?, gates[0], gates[1], args.tensor(HX)?], results)
        }),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of the gates is composed"),
    samples: &["t(2, 3), t(2, 9), t(2, 9), t(2, 3)"],
    errors: &[("t(2, 2), t(2, 9), t(2, 9), t(2, 3)", "RuntimeError", "gates of [2, 2] do not fit a state of [2, 3]")],
    reference: "(lambda s, x, h: (lambda r, z: (lambda n: (lambda a, b: (lambda c: (np.concatenate([c, b, a], -1), np.concatenate([c, b, a * r], -1), grad * z))(a * h[2] * r * (1 - r)))(grad * (1 - z) * (1 - n * n), grad * (hx - n) * z * (1 - z)))(np.tanh(x[2] + r * h[2])))(s(x[0] + h[0]), s(x[1] + h[1])))(lambda x: 1 / (1 + np.exp(-x)), np.split(input_gates, 3, -1), np.split(hidden_gates, 3, -1))",
    ..Operator::BASE
};

/// Runs an operator of this file without a record, into results of the right sizes.
pub(super) fn run_into<const N: usize>(
    operator: &'static Operator,
    operands: [&Tensor; N],
    results: &[Tensor],
) -> Result<()> {
    let Implementation::Kernel(kernel) = &operator.implementation else {
        return Err(Error::runtime("gates without a kernel"));
    };
    let args = Args::new(operator, operands.map(Value::from));
    match (results[0].device(), kernel.cuda) {
        (Device::Cuda(_), OnCuda::Own(run)) => run(&args, results),
        _ => (kernel.cpu)(&args, results),
    }
}

/// Checks that gates have as many rows as the state, and `times` its columns.
fn check(args: &Args, gates: &[(Arg, isize)], state: &Tensor) -> Result<()> {
    for &(arg, times) in gates {
        let gates = args.tensor(arg)?;
        let fits = gates.rank() == 2
            && state.rank() == 2
            && gates.sizes()[0] == state.sizes()[0]
            && Some(gates.sizes()[1]) == state.sizes()[1].checked_mul(times);
        if !fits {
            return Err(Error::runtime(format!(
                "gates of {} do not fit a state of {}",
                Shape(gates.sizes()),
                Shape(state.sizes())
            )));
        }
    }
    // torch writes the gates' functions into the products of the hidden state, which come last.
    match gates.last().map(|&(arg, _)| args.tensor(arg)).transpose()? {
        Some(last) if !last.dtype().is_differentiable() => check_cast(default_dtype(), last.dtype()),
        _ => Ok(()),
    }
}

/// Equal parts along the last dimension.
pub(super) fn parts<const N: usize>(gates: Tensor) -> Result<[Expr; N]> {
    let n = gates.sizes().last().copied().unwrap_or(0) / N as isize;
    let part = |at: usize| crate::view::narrow::sliced(&gates, gates.rank() - 1, at as isize * n, n, 1);
    Ok(std::array::from_fn(|at| Expr::new(part(at))))
}

pub(super) fn joined(parts: Vec<Expr>) -> Result<Tensor> {
    let parts = parts.into_iter().map(Expr::done).collect::<Result<Vec<_>>>()?;
    crate::join::CAT.tensor([Value::from(parts), (-1i64).into()])
}

/// The gates of a long short-term memory, from their sums.
pub(super) fn activated(sums: Tensor) -> Result<Tensor> {
    let [i, f, g, o] = parts(sums)?;
    joined(vec![i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()])
}

/// The address of a tensor's first element.
pub(super) fn first<T: Element>(pin: &rushlight_core::storage::Pin, tensor: &Tensor) -> *mut T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset)
}

fn run_lstm<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use LSTM_GATES::*;

    let compute = T::DTYPE;
    let (gates, cx) = (plain(args.tensor(GATES)?, compute)?, plain(args.tensor(CX)?, compute)?);
    let (hy, cy) = (workplace(&results[0], compute)?, workplace(&results[1], compute)?);
    let [rows, n] = [cx.sizes()[0] as usize, cx.sizes()[1] as usize];
    {
        let pins = (gates.storage().pin()?, cx.storage().pin()?);
        let to = (hy.storage().pin()?, cy.storage().pin()?);
        // SAFETY: row-major operands of these sizes and of the compute dtype; the results are new.
        unsafe {
            lstm::<T>(
                rows,
                n,
                [first::<T>(&pins.0, &gates).cast_const(), first::<T>(&pins.1, &cx).cast_const()],
                [first(&to.0, &hy), first(&to.1, &cy)],
            )
        };
    }
    settle(&hy, &results[0])?;
    settle(&cy, &results[1])
}

fn run_lstm_back<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use LSTM_GATES_BACKWARD::*;

    let compute = T::DTYPE;
    let given = |arg| args.tensor(arg).and_then(|tensor| plain(tensor, compute));
    let operands = [given(GRAD_HY)?, given(GRAD_CY)?, given(GATES)?, given(CX)?, given(CY)?];
    let places = [workplace(&results[0], compute)?, workplace(&results[1], compute)?];
    let [rows, n] = [operands[3].sizes()[0] as usize, operands[3].sizes()[1] as usize];
    {
        let pins = operands.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let to = places.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let from = std::array::from_fn(|at| first::<T>(&pins[at], &operands[at]).cast_const());
        let into = std::array::from_fn(|at| first::<T>(&to[at], &places[at]));
        // SAFETY: row-major operands of these sizes and of the compute dtype; the results are new.
        unsafe { lstm_back::<T>(rows, n, from, into) };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

fn run_gru<T: Float>(args: &Args, result: &Tensor) -> Result<()> {
    use GRU_GATES::*;

    let compute = T::DTYPE;
    let input = plain(args.tensor(INPUT_GATES)?, compute)?;
    let hidden = plain(args.tensor(HIDDEN_GATES)?, compute)?;
    let (hx, hy) = (plain(args.tensor(HX)?, compute)?, workplace(result, compute)?);
    let [rows, n] = [hx.sizes()[0] as usize, hx.sizes()[1] as usize];
    {
        let pins = (input.storage().pin()?, hidden.storage().pin()?, hx.storage().pin()?);
        let to = hy.storage().pin()?;
        let operands: [*mut T; 3] = [first(&pins.0, &input), first(&pins.1, &hidden), first(&pins.2, &hx)];
        // SAFETY: row-major operands of these sizes and of the compute dtype; the result is new.
        unsafe { gru::<T>(rows, n, operands.map(<*mut T>::cast_const), first(&to, &hy)) };
    }
    settle(&hy, result)
}

fn run_gru_back<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use GRU_GATES_BACKWARD::*;

    let compute = T::DTYPE;
    let given = |arg| args.tensor(arg).and_then(|tensor| plain(tensor, compute));
    let operands = [given(GRAD)?, given(INPUT_GATES)?, given(HIDDEN_GATES)?, given(HX)?];
    let place = |at: usize| workplace(&results[at], compute);
    let places = [place(0)?, place(1)?, place(2)?];
    let [rows, n] = [operands[3].sizes()[0] as usize, operands[3].sizes()[1] as usize];
    {
        let pins = operands.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let to = places.iter().map(|tensor| tensor.storage().pin()).collect::<Result<Vec<_>>>()?;
        let from = std::array::from_fn(|at| first::<T>(&pins[at], &operands[at]).cast_const());
        let into = std::array::from_fn(|at| first::<T>(&to[at], &places[at]));
        // SAFETY: row-major operands of these sizes and of the compute dtype; the results are new.
        unsafe { gru_back::<T>(rows, n, from, into) };
    }
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}
