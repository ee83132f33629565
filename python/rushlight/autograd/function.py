"""Functions with a gradient of their own, written in Python."""

from __future__ import annotations

import functools
import inspect
import sys

from rushlight import _C
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "once_differentiable"]


class FunctionCtx(_C._FunctionBase):
    """What ``forward`` of a `Function` notes for ``backward``; attributes are the user's own.

    >>> class Scale(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * ctx.factor, None
    >>> x = torch.ones(1, requires_grad=True)
    >>> Scale.apply(x, 3.0).backward()
    >>> x.grad
    tensor([3.])
    """

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors for `jvp`, which finds them in ``ctx.saved_tensors``."""
        self.saved_for_forward = tensors


class _InstanceCtx(FunctionCtx):
    """The ``self`` of an instance's `forward` and `backward`: one call's notes, and whatever else the instance has."""

    _function: Function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class FunctionMeta(type):
    """The class of `Function`, for metaclasses that derive from it.

    >>> type(torch.autograd.Function) is torch.autograd.function.FunctionMeta
    True
    """


class Function(metaclass=FunctionMeta):
    """Subclass it, write `forward` and `backward` as static methods, and call `apply`.

    `forward(ctx, *args)` runs without recording and may keep tensors with `ctx.save_for_backward`. `backward(ctx, *grads)`
    gets one gradient for each result and returns one for each argument, None for those that have none. Or write
    `forward(*args)` and `setup_context(ctx, inputs, output)` apart.

    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = torch.tensor(2., requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs a function of the old style, whose `forward` and `backward` are methods of an instance."""
        cls = type(self)
        if not isinstance(inspect.getattr_static(cls, "forward"), staticmethod):
            ctx = _InstanceCtx()
            ctx._function = self
            return _C._apply_function(cls, ctx, cls._places(args, kwargs, False), False)
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """What the function computes: of ``ctx`` and the arguments, or with `setup_context` of the arguments alone."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Notes what ``backward`` needs, where ``forward`` does not take ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient for each argument of ``forward``, from one for each result; None where there is none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    #: Whether `vmap` runs `forward` and `backward` on mapped tensors.
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """What `torch.func.vmap` makes of a call: the results for whole batches and along which dimensions they stand, a
        pair. ``info`` has ``batch_size`` and ``randomness``; ``in_dims`` say which dimension of each argument is that of
        the samples, None for an argument that is the same for all."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The derivative forward: one tangent for each result, from one for each argument (`torch.autograd.forward_ad`)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def _places(cls, args: tuple[Any, ...], kwargs: dict[str, Any], split: bool) -> tuple[Any, ...]:
        """The arguments of `forward` by position: keywords go where their names stand, without gaps."""
        code = cls.forward.__code__
        names = code.co_varnames[0 if split else 1 : code.co_argcount]  # `ctx` is no argument of the call
        # `setup_context` sees every argument of `forward`, also those that were not given.
        defaults = cls.forward.__defaults__ or () if split else ()
        if unknown := [name for name in kwargs if name not in names]:
            raise TypeError(f"forward() got an unexpected keyword argument '{unknown[0]}'")
        if twice := [name for name in kwargs if name in names[: len(args)]]:
            raise TypeError(f"forward() got multiple values for argument '{twice[0]}'")
        found, given = list(args), dict(kwargs)
        for place in range(len(args), len(names)):
            name, from_end = names[place], len(names) - place
            if name in given:
                found.append(given.pop(name))
            elif from_end <= len(defaults):
                found.append(defaults[-from_end])
            elif given:
                raise TypeError(f"forward() missing required argument: '{name}' (position {place})")
        return tuple(found)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs `forward` on the arguments and records the call."""
        split = cls.setup_context is not Function.setup_context
        if kwargs or split:
            args = cls._places(args, kwargs, split)
        if _C._vmap_levels():
            from rushlight.func._function import mapped

            found, args = mapped(cls, args, split)
            if found is not None:
                return found[0]
        ctx = FunctionCtx()
        result = _C._apply_function(cls, ctx, args, split)
        if cls.jvp is not Function.jvp:
            # Without the module nobody has entered a level; to import it here would cost more than a small `forward`.
            forward_ad = sys.modules.get("rushlight.autograd.forward_ad")
            if forward_ad is not None and forward_ad.active():
                return forward_ad.through_function(cls, ctx, args, result)
        return result

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "vjp" in cls.__dict__ and "backward" not in cls.__dict__:
            cls.backward = cls.vjp  # type: ignore[method-assign]


class InplaceFunction(Function):
    """A function whose instances say whether they work in place, in the style of 2017.

    >>> class Double(torch.autograd.function.InplaceFunction):
    ...     def forward(self, x):
    ...         return x.mul_(2) if self.inplace else x * 2
    >>> x = torch.ones(1)
    >>> Double(inplace=True)(x), x
    (tensor([2.]), tensor([2.]))
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _Twice(Function):
    """The identity, whose gradient is an error."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a ``backward`` that is not itself differentiable: differentiating through it is an error, not a wrong
    number.

    Raises:
        RuntimeError: in a second backward through it.

    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x ** 3
    ...     @staticmethod
    ...     @torch.autograd.function.once_differentiable
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> torch.autograd.grad(Cube.apply(x), x)
    (tensor(12.),)
    """

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        recording = _C._set_grad_enabled(False)
        try:
            results = backward(ctx, *grads)
        finally:
            _C._set_grad_enabled(recording)
        watched = any(isinstance(grad, _C.Tensor) and grad.requires_grad for grad in grads)
        if not (recording and watched):
            return results
        single = not isinstance(results, tuple)
        results = (results,) if single else results
        tensors = [r.detach().requires_grad_() for r in results if isinstance(r, _C.Tensor)]
        guarded = iter(_Twice.apply(*tensors)) if tensors else iter(())
        results = tuple(next(guarded) if isinstance(r, _C.Tensor) else r for r in results)
        return results[0] if single else results

    return once


def __dir__() -> list[str]:
    return __all__
