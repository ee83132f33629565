"""Custom differentiable functions, written in Python."""

from __future__ import annotations

import functools
import inspect

from rushlight import _C
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "once_differentiable"]


class FunctionCtx(_C._FunctionBase):
    """The context in which ``forward`` of a `Function` stores data for ``backward``. It accepts any attributes.

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
        """Saves tensors for `jvp`, which reads them from ``ctx.saved_tensors``.

        Raises:
            AssertionError: an argument is neither a tensor nor None.
        """
        from rushlight import Tensor

        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Marks inputs that ``forward`` changed in place."""
        super().mark_dirty(*args)
        self._marked_dirty = args

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of ``saved_tensors``."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors


class _InstanceCtx(FunctionCtx):
    """The ``self`` of `forward` and `backward` of an instance: the context of one call and the instance's attributes."""

    _function: Function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class FunctionMeta(type):
    """The metaclass of `Function`, for other metaclasses to derive from.

    >>> type(torch.autograd.Function) is torch.autograd.function.FunctionMeta
    True
    """


class Function(metaclass=FunctionMeta):
    """Base class of custom functions: define `forward` and `backward` as static methods, and call `apply`.

    `forward(ctx, *args)` runs without recording and can save tensors with `ctx.save_for_backward`. `backward(ctx,
    *grads)` gets one gradient per result and returns one per argument (None for arguments without one). Alternatively,
    define `forward(*args)` and `setup_context(ctx, inputs, output)` separately.

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
        """Runs a legacy function, whose `forward` and `backward` are methods of an instance."""
        cls = type(self)
        if not isinstance(inspect.getattr_static(cls, "forward"), staticmethod):
            ctx = _InstanceCtx()
            ctx._function = self
            given = cls._places(args, kwargs, False)
            result = _C._apply_function(cls, ctx, given, False)
            _check_dirty(ctx.__dict__.pop("_marked_dirty", ()), given)
            return result
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the function, from ``ctx`` and the arguments, or with `setup_context` from the arguments only."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Stores data for ``backward`` if ``forward`` does not take ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Returns one gradient per argument of ``forward`` (or None), given one gradient per result."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    #: Whether `vmap` runs `forward` and `backward` on batched tensors.
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The batching rule for `torch.func.vmap`. Returns batched results and their batch dimensions. ``info`` has the
        attributes ``batch_size`` and ``randomness``. ``in_dims`` are the batch dimensions of the arguments, None for
        arguments without one."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward derivative: one tangent per result, given one per argument (`torch.autograd.forward_ad`)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def _places(cls, args: tuple[Any, ...], kwargs: dict[str, Any], split: bool) -> tuple[Any, ...]:
        """Converts keyword arguments of `forward` to positional ones, without gaps."""
        code = cls.forward.__code__
        names = code.co_varnames[0 if split else 1 : code.co_argcount]  # without `ctx`
        # `setup_context` gets every argument of `forward`, also those with default values.
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
        """Runs `forward` with the arguments and records the call."""
        split = cls.setup_context is not Function.setup_context
        if kwargs or split:
            args = cls._places(args, kwargs, split)
        if _C._vmap_levels() or _C._transforms():
            from rushlight.func._function import check_transformable, mapped

            check_transformable(cls, split, cls.vmap is not Function.vmap)
            found, args = mapped(cls, args)
            if found is not None:
                return found[0]
        ctx = FunctionCtx()
        levels: Any = ()
        if cls.jvp is not Function.jvp and _C._are_tangents_enabled():
            from rushlight.autograd import _own_tangents

            levels = _own_tangents.active_levels()
        if levels:
            run = lambda: _C._apply_function(cls, ctx, args, split)
            result = _own_tangents.through(cls, levels, args, run, lambda result: ctx)
        else:
            result = _C._apply_function(cls, ctx, args, split)
        if "_marked_dirty" in ctx.__dict__:
            _check_dirty(ctx.__dict__.pop("_marked_dirty"), args)
        return result

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.vjp is Function.vjp or cls.backward is cls.vjp:
            return
        # `vjp` is another name for `backward`, so that a class inherits only one of them from this method.
        inherited = [getattr(base, "vjp", None) for base in cls.__mro__[1:]]
        cls.backward = cls.vjp if cls.backward in inherited else staticmethod(_refuse_both)  # type: ignore[method-assign]


def _refuse_both(ctx: Any, *grad_outputs: Any) -> Any:
    """The `backward` of a function that defines both `backward` and `vjp`."""
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
    )


def _check_dirty(marked: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
    if any(all(tensor is not given for given in inputs) for tensor in marked):
        warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should "
            "be passed to ctx.mark_dirty()."
        )


class InplaceFunction(Function):
    """A legacy function whose instances have a flag for in-place operation, in the style of 2017.

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


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a ``backward`` that is not differentiable, so that differentiating it raises an error instead of returning
    a wrong result.

    Raises:
        RuntimeError: ``backward`` is differentiated.

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
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        results = tuple(
            _C._undifferentiable(_C._requiring_grad(r.detach()), message) if isinstance(r, _C.Tensor) else r
            for r in results
        )
        return results[0] if single else results

    return once


def __dir__() -> list[str]:
    return __all__
