"""Rarely used methods of `Tensor`. They are written in Python and attached to the engine's class."""

from functools import wraps
from types import NoneType

from rushlight import _C, _utils
from rushlight._C import Tensor, UntypedStorage, _expect_overrides
from rushlight._C import _disabled_torch_function_impl as _disabled
from rushlight._C import device as _device
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._overridable import overridable
from rushlight._warnings import warn, warn_once, warn_unpinned


def _method(function):
    """Attaches a function as a method of `Tensor` that classes and modes can override."""

    method = overridable(function)
    return _attach(method, method)


def _class_method(function):
    """Attaches a function as a class method of `Tensor`."""
    return _attach(function, classmethod(function))


def _attach(function, attribute):
    function.__qualname__ = f"Tensor.{function.__name__}"
    setattr(Tensor, function.__name__, attribute)
    return attribute


@_class_method
def __init_subclass__(cls, **keywords):
    super(Tensor, cls).__init_subclass__(**keywords)
    if cls.__torch_function__ is not _disabled:
        _expect_overrides()


@_class_method
def __torch_function__(cls, func, types, args=(), kwargs=None):
    """The default for subclasses of `Tensor`: calls the function and converts its results to the subclass. See
    `torch.overrides`.

    >>> class Named(torch.Tensor):
    ...     pass
    >>> torch.ones(2).as_subclass(Named) + 1
    Named([2., 2.])
    """
    return load("rushlight.overrides")._default(cls, func, types, args, kwargs)


@_class_method
def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    """The default for subclasses of `Tensor`: calls the operator itself. A class with another one handles the operators
    of torch's registry, ``torch.ops.aten``.

    >>> x = torch.Tensor.__torch_dispatch__(torch.ops.aten.neg.default, (torch.Tensor,), (torch.ones(2),))
    >>> x
    tensor([-1., -1.])
    """
    return _C._without_class_handlers(func, tuple(args), kwargs or {})


def _make_wrapper_subclass(cls, size, *args, **options):
    """A tensor of a class with a ``__torch_dispatch__`` that tells a form and a device and has no elements."""
    return load("rushlight._torch_dispatch")._make_wrapper_subclass(cls, size, *args, **options)


_attach(_make_wrapper_subclass, staticmethod(_make_wrapper_subclass))


@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of this tensor to the `.grad` of the leaves that it depends on.

    `gradient` is the vector of a vector-Jacobian product. It can be omitted for a tensor with one element. Options and
    errors are those of `torch.autograd.backward`.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).backward(torch.tensor([1.0, 10.0]))
    >>> x.grad
    tensor([ 2., 40.])
    """
    from rushlight import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    if _C._is_wrapper(self):
        made = self.clone()
        if type(made) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that implement "
                "clone() and for which cloning returns another instance of the same subclass. You should either properly implement "
                "clone() for your subclass or override __deepcopy__() if it is intended behavior for clone() to return an instance "
                "of a different type."
            )
    elif _utils.is_sparse(self):
        made = self.detach().clone()
    else:
        # Tensors that share memory share it in the copy too.
        storage = self.untyped_storage()
        key = "storage", storage.data_ptr(), storage.nbytes()
        if storage.nbytes() == 0 or key not in memo:
            memo[key] = storage.clone()
        made = _utils.view_of(memo[key], *_utils.layout_of(self))
    if type(self) is not Tensor:
        made = Tensor._make_subclass(type(self), made)
    made.requires_grad_(self.requires_grad)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    made.__dict__.update(deepcopy(self.__dict__, memo))
    return made


@_method
def __reduce_ex__(self, protocol):
    _warn_of_hooks(self)
    # The class of a plain tensor has another name in a program that runs as torch's.
    kind = None if type(self) is Tensor else type(self)
    return _utils._rebuild, (*_utils.taken_apart(self), self.requires_grad, kind, self.__dict__ or None)


def _warn_of_hooks(tensor):
    """A pickle has no hooks."""
    if tensor._backward_hooks:
        load("rushlight.utils.hooks").warn_if_has_hooks(tensor)


@_method
def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, complex)):
        return bool((element == self).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@_method
def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    from rushlight import from_numpy

    return from_numpy(array.copy() if array.ndim == 0 else array)


@_method
def __array_namespace__(self, *, api_version=None):
    """The namespace of the Python array API standard for this tensor: ``rushlight.array_api``."""
    array_api = load("rushlight.array_api")
    if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
        raise ValueError(f"version {api_version!r} of the array API standard is not supported")
    return array_api


@_method
def to_device(self, device, /, *, stream=None):
    """The tensor on another device. This is the array API standard's name of `to`.

    >>> torch.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    if stream is not None:
        raise NotImplementedError("to_device() does not support streams")
    return self.to(device)


@_method
def _repr_html_(self):
    """HTML for notebooks: the text of the tensor, with the shape and the dtype if the text does not contain them."""
    from html import escape

    facts = f"shape {tuple(self.shape)}, {self.dtype}, {self.device}"
    return f'<pre title="{escape(facts)}">{escape(repr(self))}</pre>'


def _dir(self):
    return sorted({*dir(type(self)), *self.__dict__})


# By another name here, where `__dir__` would be that of the module.
_dir.__name__ = "__dir__"
_method(_dir)


@_method
def __copy__(self):
    # Pickles contain the tensor's own storage object, so that both tensors share the elements after loading.
    function, arguments = self.__reduce_ex__(4)
    return function(*arguments)


@_method
def storage(self):
    """The whole storage of this tensor, typed with the tensor's dtype; `untyped_storage` returns the bytes."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
        "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
        "tensor.untyped_storage() instead of tensor.storage()",
    )
    return load("rushlight.storage").TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


@_method
def set_(self, *args, **kwargs):
    """Makes this tensor a view of a storage, or of the memory of another tensor: ``set_(source, storage_offset=0, size,
    stride)``. Without arguments it becomes empty.

    >>> torch.zeros(1).set_(torch.arange(4.0).untyped_storage(), 1, (2,))
    tensor([1., 2.])
    """
    source = args[0] if args else kwargs.get("source")
    if source is not None and not isinstance(source, (Tensor, UntypedStorage)):
        storage = load("rushlight.storage")
        if isinstance(source, storage.TypedStorage):
            if source.dtype != self.dtype:
                names = load("rushlight._legacy_constructors")
                raise RuntimeError(
                    f"Expected a Storage of type {names.name_in_c(self.dtype)} or an UntypedStorage, but got type "
                    f"{names.storage_name(source.dtype)} for argument 1 'storage'"
                )
            args, kwargs = (source.untyped(), *args[1:]), {**kwargs}
            kwargs.pop("source", None)
    return _utils.set_storage(self, *args, **kwargs)


def _without_gradient(self, name):
    if self.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")


def _number(value):
    if isinstance(value, (str, bytes, list, tuple)):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value


@_method
def apply_(self, callable):
    """Replaces each element by ``callable(element)``, in place. Slow; for the CPU only.

    >>> torch.tensor([1.0, 4.0]).apply_(lambda value: value + 0.5)
    tensor([1.5000, 4.5000])
    """
    from rushlight import no_grad, tensor

    _without_gradient(self, "apply_")
    values = [_number(callable(value)) for value in self.detach().reshape(-1).tolist()]
    with no_grad():
        return self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
def map_(self, tensor, callable):
    """Replaces each element by ``callable(element, other)``, in place, where ``other`` is the element of ``tensor``.

    >>> torch.tensor([1.0, 4.0]).map_(torch.tensor([2.0, 3.0]), max)
    tensor([2., 4.])
    """
    import rushlight as torch

    load("rushlight._text").must_be_tensor("map_", "other", 1, tensor)
    _without_gradient(self, "map_")
    own, other = self.detach(), tensor.detach().expand_as(self)
    values = [_number(callable(*pair)) for pair in zip(own.reshape(-1).tolist(), other.reshape(-1).tolist())]
    with torch.no_grad():
        return self.copy_(torch.tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
def map2_(self, x, y, callable):
    """Replaces each element by ``callable(element, first, second)``, in place, with the elements of ``x`` and ``y``.

    >>> torch.tensor([1.0, 4.0]).map2_(torch.tensor([2.0, 3.0]), torch.tensor([3.0, 3.0]), max)
    tensor([3., 4.])
    """
    import rushlight as torch

    for place, (name, other) in enumerate((("x", x), ("y", y)), 1):
        load("rushlight._text").must_be_tensor("map2_", name, place, other)
    _without_gradient(self, "map2_")
    for name, other in (("x", x), ("y", y)):
        if other.type() != self.type():
            raise TypeError(f"map2_: expected {self.type()} for argument '{name}' (got {other.type()})")
    own, first, second = (one.detach().expand_as(self).reshape(-1).tolist() for one in (self, x, y))
    values = [_number(callable(*numbers)) for numbers in zip(own, first, second)]
    with torch.no_grad():
        return self.copy_(torch.tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
@compiled("Tensor src, int dim=0, int? start=None, int? end=None, int step=1", is_method=True, overridable=False)
def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """`torch.slice_inverse`.

    >>> whole = torch.arange(4)
    >>> whole[1:3].slice_inverse(whole, 0, 1, 3)
    tensor([0, 1, 2, 3])
    """
    return load("rushlight._native").slice_inverse(self, src, dim, start, end, step)


@_method
def new(self, *args, **kwargs):
    """A new tensor with this dtype, of a given size or with the elements of a sequence.

    >>> torch.ones(2).double().new([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    if self.layout is _C.sparse_coo:
        return load("rushlight._legacy_constructors").build_sparse(self.dtype, args, kwargs)
    if self.layout in (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc):
        return self.new_tensor(args)  # It refuses these layouts too.
    form = "new of the form tensor.new(tensor, device=device)"
    return load("rushlight._legacy_constructors").build(
        self.dtype, args, kwargs, self.device, form, "torch.as_tensor(...)"
    )


@_method
def module_load(self, other, assign=False):
    """The tensor that `Module.load_state_dict` stores: this tensor with the values of ``other``, or ``other`` itself.

    >>> torch.zeros(2).module_load(torch.ones(2).double())
    tensor([1., 1.])
    """
    return other.detach() if assign else self.detach().copy_(other)


@_method
def pin_memory(self, device=None):
    """The elements in page-locked memory, which GPUs copy while the program goes on; itself if they are there already.

    Without a GPU it is the tensor itself, with a warning. Gradients flow through the copy.

    Raises:
        RuntimeError: the tensor is not on the CPU, or is sparse.
    """
    if not isinstance(device, (str, int, _device, NoneType)):
        raise TypeError(
            f"pin_memory(): argument 'device' (position 1) must be torch.device, not {type(device).__name__}"
        )
    if _C._cuda_device_count() == 0:
        warn_unpinned()
        return self
    if self.device.type != "cpu" or self.layout != _C.strided:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    return self if self.is_pinned() else _C._cuda_pin(self)


@_method
def to_padded_tensor(self, padding, output_size=None):
    """The samples of a nested tensor stacked, with ``padding`` behind those that are smaller. See `torch.nested`.

    >>> torch.nested.nested_tensor([[1, 2], [3]]).to_padded_tensor(0)
    tensor([[1, 2],
            [3, 0]])
    """
    raise _not_nested("to_padded_tensor")


def _not_nested(name):
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'CPU' backend. Only nested tensors have {name}()."
    )


@_method
def _nested_tensor_size(self):
    """The sizes of the samples of a nested tensor, as a tensor with a row for each."""
    raise _not_nested("_nested_tensor_size")


@_method
def _nested_tensor_strides(self):
    """The strides of the samples of a nested tensor, as a tensor with a row for each."""
    raise _not_nested("_nested_tensor_strides")


@_method
def _nested_tensor_storage_offsets(self):
    """Where the samples of a nested tensor begin in its buffer."""
    raise _not_nested("_nested_tensor_storage_offsets")


@_method
def is_nonzero(self):
    """Whether the only element is not zero.

    >>> torch.tensor([0.5]).is_nonzero()
    True
    """
    return bool(self)


@_method
def masked_copy_(self, mask, source):
    """The old name of `masked_scatter_`."""
    warn("masked_copy_ is now called masked_scatter_", DeprecationWarning)
    return self.masked_scatter_(mask, source)


@_method
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """See ``torch.unique``.

    >>> torch.tensor([3, 1, 3]).unique(return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    return load("rushlight.functional").unique(self, sorted, return_inverse, return_counts, dim)


@_method
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """See ``torch.unique_consecutive``.

    >>> torch.tensor([3, 3, 1, 3]).unique_consecutive()
    tensor([3, 1, 3])
    """
    return load("rushlight.functional").unique_consecutive(self, return_inverse, return_counts, dim)


@_method
def lu(self, pivot=True, get_infos=False):
    """See ``torch.lu``.

    >>> packed, pivots = torch.tensor([[1.0, 2.0], [4.0, 5.0]]).lu()
    >>> pivots
    tensor([2, 2], dtype=torch.int32)
    """
    return tuple(load("rushlight.functional").lu(self, pivot, get_infos))


@_method
def reinforce(self, *arguments):
    """Removed from torch. The error shows the replacement.

    >>> try:
    ...     torch.ones(1).reinforce(1.0)
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[0])
    reinforce() was removed.
    """
    raise RuntimeError(
        "reinforce() was removed.\n"
        "Use torch.distributions instead: the loss is -m.log_prob(action) * reward, where m is the distribution that the "
        "action was drawn from."
    )


_cuda = Tensor.cuda


@_method
@wraps(_cuda)
def cuda(self, *args, **kwargs):
    if "async" in kwargs:
        # `async` is a keyword since Python 3.7, so that it can only be passed as `**{"async": True}`.
        warn("'async' is deprecated; use 'non_blocking'", DeprecationWarning)
        kwargs["non_blocking"] = kwargs.pop("async")
    return _cuda(self, *args, **kwargs)


def _creator(self):
    warn("creator is now called grad_fn", DeprecationWarning)
    return self.grad_fn


def _volatile(self):
    warn("volatile was removed (Variable.volatile is always False)")
    return False


def _set_volatile(self, value):
    warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")


def _set_gradient(self, value):
    self.grad = value


def _delete_gradient(self):
    self.grad = None


def _array_interface(self):
    """Where the elements of a tensor on a GPU are, for libraries that read the array interface of Numba.

    Raises:
        AttributeError: the tensor is not on a GPU, or sparse.
        RuntimeError: it requires a gradient.

    >>> hasattr(torch.ones(1), "__cuda_array_interface__")
    False
    """
    if not self.is_cuda:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()!r} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if self.layout != _C.strided:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on sparse type: {self.type()!r} Use Tensor.to_dense() to convert to a dense "
            "tensor first."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    width = self.element_size()
    if self.dtype == _C.bool:
        kind = "b"
    elif self.dtype == _C.bfloat16:
        kind = "V"
    elif self.is_complex():
        kind = "c"
    else:
        kind = "f" if self.is_floating_point() else "i" if self.dtype.is_signed else "u"
    return {
        "typestr": f"{'|' if width == 1 else '<'}{kind}{width}",
        "shape": tuple(self.shape),
        "strides": None if self.is_contiguous() else tuple(step * width for step in self.stride()),
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 2,
    }


for _name, _attribute in {
    "__cuda_array_interface__": property(_array_interface, doc=_array_interface.__doc__),
    "_grad": property(lambda self: self.grad, _set_gradient, _delete_gradient, doc="Another name of `grad`."),
    "_cdata": property(id, doc="A number that no other living tensor has, by which programs compare tensors."),
    "volatile": property(_volatile, _set_volatile, doc="Always False. Replaced by `no_grad`."),
    "creator": property(_creator, doc="The old name of `grad_fn`."),
    "name": property(lambda self: None, doc="Always None, because tensors have no names."),
}.items():
    setattr(Tensor, _name, _attribute)

# NumPy lets the tensor handle arithmetic between an array and a tensor.
Tensor.__array_priority__ = 1000


def __getattr__(name):
    # Pickles of torch name it.
    if name == "_rebuild_from_type_v2":
        return load("rushlight._checkpoint.rebuild")._rebuild_from_type_v2
    raise AttributeError(f"module 'torch._tensor' has no attribute {name!r}")
