"""L-BFGS with an optional line search."""

from __future__ import annotations

import rushlight as torch

from .optimizer import Optimizer, check_rate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NamedTuple

    from rushlight import Tensor
else:
    from typing import NamedTuple

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Steps along an estimate of Newton's direction from recent steps (Liu and Nocedal 1989), several steps per call.

    Args:
        params: tensors, or one parameter group.
        lr: the length of a step, or the initial length of the line search.
        max_iter, max_eval: the largest number of steps and of evaluations of the closure per call; by default five
            evaluations for four steps.
        tolerance_grad, tolerance_change: stop below this largest gradient, or below this change of loss and parameters.
        history_size: the number of steps that the estimate uses.
        line_search_fn: ``"strong_wolfe"`` for a line search, or None.

    Any shapes; floating point and complex dtypes, the same for all parameters.

    Raises:
        ValueError: the rate is negative, or there are several groups.
        RuntimeError: the line search is unknown.

    >>> weight = torch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([weight], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((weight - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), weight.round()
    (13.0, tensor([1., 1.], grad_fn=<RoundBackward0>))
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    # Helpers for all parameters as one vector.

    def _gradient(self) -> Tensor:
        parts = []
        for param in self._params:
            part = torch.zeros_like(param) if param.grad is None else param.grad
            part = part.to_dense() if part.is_sparse else part
            part = torch.view_as_real(part) if part.is_complex() else part
            parts.append(part.reshape(-1))
        return torch.cat(parts)

    def _move(self, length: Any, direction: Tensor) -> None:
        start = 0
        for param in self._params:
            part = torch.view_as_real(param) if param.is_complex() else param
            end = start + part.numel()
            part.add_(direction[start:end].view_as(part), alpha=length)
            start = end

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes up to ``max_iter`` steps. ``closure`` computes the loss and its gradients. Returns the first loss."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")
        group = self.param_groups[0]
        lr, tolerance = group["lr"], group["tolerance_change"]
        lr = lr.item() if isinstance(lr, torch.Tensor) else lr

        def evaluated() -> Any:
            with torch.enable_grad():
                return closure()

        own = self.state[self._params[0]]
        own.setdefault("func_evals", 0)
        own.setdefault("n_iter", 0)
        first_loss = evaluated()
        loss = _number(first_loss)
        evaluations = 1
        own["func_evals"] += 1
        with torch.no_grad():
            gradient = self._gradient()
            if _flat(gradient, group):
                return first_loss
            iteration = 0
            while iteration < group["max_iter"]:
                iteration += 1
                own["n_iter"] += 1
                direction = self._direction(own, gradient, group["history_size"])
                if own["n_iter"] == 1:
                    total = gradient.abs().sum().item()
                    length = (min(1.0, 1.0 / total) if total else 1.0) * lr
                else:
                    length = lr
                own["prev_flat_grad"], own["prev_loss"] = gradient.clone(), loss
                own["d"], own["t"] = direction, length
                slope = gradient.dot(direction).item()
                if slope > -tolerance:
                    break
                used = 0
                if group["line_search_fn"] is not None:
                    if group["line_search_fn"] != "strong_wolfe":
                        raise RuntimeError("only 'strong_wolfe' is supported")
                    before = [param.clone() for param in self._params]

                    def at(length: float, direction: Tensor = direction, before: list[Tensor] = before) -> _Point:
                        self._move(length, direction)
                        loss = _number(evaluated())
                        gradient = self._gradient()
                        for param, old in zip(self._params, before):
                            param.copy_(old)
                        return _Point(length, loss, gradient, gradient.dot(direction).item())

                    begin = _Point(0.0, loss, gradient, slope)
                    reach = direction.abs().max().item()
                    best, used = _strong_wolfe(at, begin, length, reach, group["max_eval"] - evaluations)
                    length, loss, gradient, _ = best
                    own["t"] = length
                    self._move(length, direction)
                else:
                    self._move(length, direction)
                    if iteration != group["max_iter"]:
                        loss = _number(evaluated())
                        gradient = self._gradient()
                        used = 1
                evaluations += used
                own["func_evals"] += used
                if (
                    evaluations >= group["max_eval"]
                    or _flat(gradient, group)
                    or direction.mul(length).abs().max().item() <= tolerance
                    or abs(loss - own["prev_loss"]) < tolerance
                ):
                    break
        return first_loss

    @staticmethod
    def _direction(own: dict[str, Any], gradient: Tensor, history: int) -> Tensor:
        """The negative product of the estimated inverse Hessian and the gradient, by the two-loop recursion."""
        if own["n_iter"] == 1:
            own.update(d=None, t=None, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        change, moved = gradient - own["prev_flat_grad"], own["d"] * own["t"]
        curvature = change.dot(moved)
        changes, moves, inverses = own["old_dirs"], own["old_stps"], own["ro"]
        if curvature.item() > 1e-10:
            if len(changes) == history:
                for past in (changes, moves, inverses):
                    past.pop(0)
            changes.append(change)
            moves.append(moved)
            inverses.append(1.0 / curvature)
            own["H_diag"] = curvature / change.dot(change)
        own.setdefault("al", [None] * history)
        shares = own["al"]
        result = -gradient
        for place in reversed(range(len(changes))):
            shares[place] = moves[place].dot(result) * inverses[place]
            result.sub_(changes[place] * shares[place])
        result = result * own["H_diag"]
        for place in range(len(changes)):
            result.add_(moves[place] * (shares[place] - changes[place].dot(result) * inverses[place]))
        return result


def _number(loss: Any) -> float:
    return float(loss.item() if isinstance(loss, torch.Tensor) else loss)


def _flat(gradient: Tensor, group: dict[str, Any]) -> bool:
    return bool(gradient.abs().max().item() <= group["tolerance_grad"])


class _Point(NamedTuple):
    """A point on the search line: its distance, the loss, the gradient, and the slope along the line."""

    at: float
    loss: float
    gradient: Tensor
    slope: float


def _strong_wolfe(
    evaluate: Callable[[float], _Point],
    begin: _Point,
    length: float,
    reach: float,
    most: int,
    decrease: float = 1e-4,
    flatness: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[_Point, int]:
    """A point that satisfies the strong Wolfe conditions, and the number of points that were tried.

    Nocedal and Wright, Numerical Optimization, algorithms 3.5 (first loop: a bracket) and 3.6 (second: inside of it).
    """
    before, now = begin, evaluate(length)
    used, tries = 1, 0
    low: _Point | None = None
    while tries < most:
        too_high = now.loss > begin.loss + decrease * now.at * begin.slope
        if not too_high and not (tries > 1 and now.loss >= before.loss):
            if abs(now.slope) <= -flatness * begin.slope:
                return now, used
            if now.slope < 0:
                limits = now.at + 0.01 * (now.at - before.at), now.at * 10
                before, now = now, evaluate(_lowest(before, now, limits))
                used, tries = used + 1, tries + 1
                continue
        low, high = before, now
        break
    if low is None:
        low, high = begin, now
    # The interpolation depends on the order in which the two points were found.
    older, newer = low, high
    if older.loss > newer.loss:
        low, high = newer, older
    stuck = False
    while tries < most and abs(newer.at - older.at) * reach >= tolerance:
        left, right = sorted((older.at, newer.at))
        length = _lowest(older, newer)
        margin = 0.1 * (right - left)
        if min(right - length, length - left) < margin:
            if stuck or length >= right or length <= left:
                length = right - margin if abs(length - right) < abs(length - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(length)
        used, tries = used + 1, tries + 1
        low_is_older = low is older
        if now.loss > begin.loss + decrease * length * begin.slope or now.loss >= low.loss:
            high = now
        else:
            done = abs(now.slope) <= -flatness * begin.slope
            if not done and now.slope * (high.at - low.at) >= 0:
                high = low
            low = now
            if done:
                break
        older, newer = (low, high) if low_is_older else (high, low)
        if older.loss <= newer.loss:
            low, high = older, newer
        else:
            low, high = newer, older
    return low, used


def _lowest(a: _Point, b: _Point, limits: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two points with their slopes, within limits."""
    left, right = limits if limits is not None else sorted((a.at, b.at))
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at)
    square = middle**2 - a.slope * b.slope
    if square < 0:
        return (left + right) / 2.0
    root = square**0.5
    if a.at <= b.at:
        found = b.at - (b.at - a.at) * ((b.slope + root - middle) / (b.slope - a.slope + 2 * root))
    else:
        found = a.at - (a.at - b.at) * ((a.slope + root - middle) / (a.slope - b.slope + 2 * root))
    return min(max(found, left), right)
