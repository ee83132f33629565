"""Adam for sparse gradients."""

from __future__ import annotations

import rushlight as torch

from .optimizer import Optimizer, at_places, check_betas, check_one_element, loss_of, with_gradients

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates averages and parameters only at the indices of a sparse gradient.

    Args:
        params: dense parameters, or groups of them.
        lr: the learning rate.
        betas: the decay rates of the running mean and the running mean square.
        eps: added to the denominator.
        maximize: whether to maximise the objective.

    Raises:
        ValueError: an option is out of range, or a parameter is sparse.
        RuntimeError: in `step`, a gradient is dense.

    >>> w = torch.ones(3, 2, requires_grad=True)
    >>> torch.nn.functional.embedding(torch.tensor([0]), w, sparse=True).sum().backward()
    >>> torch.optim.SparseAdam([w], lr=0.1).step()
    >>> w[:, 0]
    tensor([0.9000, 1.0000, 1.0000], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

        def places(wrong: Callable[[Tensor], bool]) -> list[list[int]]:
            groups = enumerate(self.param_groups)
            return [[number, n] for number, group in groups for n, param in enumerate(group["params"]) if wrong(param)]

        sparse = places(lambda param: param.is_sparse)
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        complex_ = places(lambda param: param.is_complex())
        if complex_:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete(maximize=False)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Performs one step. Returns the loss of the closure."""
        loss = loss_of(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, "betas")
            # Checked before the first parameter changes.
            if not all(grad.is_sparse for grad in grads):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            for param, grad in zip(params, grads):
                own = self.state[param]
                if not own:
                    own["step"] = 0
                    own["exp_avg"] = torch.zeros_like(param)
                    own["exp_avg_sq"] = torch.zeros_like(param)
                own["step"] += 1
                _move(group, param, grad, own)
        return loss


def _move(group: dict[str, Any], param: Tensor, grad: Tensor, own: dict[str, Any]) -> None:
    beta1, beta2 = group["betas"]
    grad = grad.coalesce()
    slope = grad._values()
    if slope.numel() == 0:
        return
    if group["maximize"]:
        slope = -slope

    def advance(average: Tensor, target: Tensor, rate: float) -> Tensor:
        """Updates an average at the indices of `target`, and returns its values there."""
        old = average.sparse_mask(grad)._values()
        change = (target - old) * rate
        average.add_(at_places(grad, change))
        return change + old

    mean = advance(own["exp_avg"], slope, 1 - beta1)
    square = advance(own["exp_avg_sq"], slope.pow(2), 1 - beta2)
    step = own["step"]
    rate = float(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    param.add_(at_places(grad, mean / square.sqrt().add_(group["eps"]) * -rate))
