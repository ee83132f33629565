"""Questions about tensors, dtypes, shapes, objects and the build, and `detach`: functions of `torch` that only call a method."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import _C
from rushlight._compiled import compiled
from rushlight._loading import load
from rushlight._size import Size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from rushlight import Tensor, device, dtype


def typename(obj: object) -> str:
    """The name of an object's type as it appears in torch's messages.

    >>> torch.typename(torch.zeros(1)), torch.typename(3)
    ('torch.FloatTensor', 'int')
    """
    return load("rushlight._text").typename(obj)


@compiled()
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers.

    >>> torch.is_floating_point(torch.zeros(1)), torch.is_floating_point(torch.tensor([1]))
    (True, False)
    """
    return input.is_floating_point()


@compiled()
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    >>> torch.is_complex(torch.tensor([1j]))
    True
    """
    return input.is_complex()


@compiled()
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative values: every dtype except the unsigned ones and bool.

    >>> torch.is_signed(torch.tensor([1])), torch.is_signed(torch.tensor([True]))
    (True, False)
    """
    return input.is_signed()


@compiled()
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a lazy conjugate: its elements are conjugates of the stored values.

    >>> torch.is_conj(torch.tensor([1j])), torch.is_conj(torch.tensor([1j]).conj())
    (False, True)
    """
    return input.is_conj()


@compiled()
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a lazy negative: its elements are negatives of the stored values.

    >>> torch.is_neg(torch.tensor([1j]).imag), torch.is_neg(torch.tensor([1j]).conj().imag)
    (False, True)
    """
    return input.is_neg()


@compiled()
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was created in inference mode.

    >>> with torch.inference_mode():
    ...     made = torch.ones(1)
    >>> torch.is_inference(made), torch.is_inference(torch.ones(1))
    (True, False)
    """
    return input.is_inference()


@compiled()
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    Raises:
        RuntimeError: the tensor does not have exactly one element.

    >>> torch.is_nonzero(torch.tensor([0.5])), torch.is_nonzero(torch.tensor(0))
    (True, False)
    """
    return bool(input)


@compiled()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same sizes.

    >>> torch.is_same_size(torch.zeros(2, 1), torch.zeros(1, 2))
    False
    """
    return input.is_same_size(other)


def is_storage(obj: object) -> bool:
    """Whether an object is a storage.

    >>> torch.is_storage(torch.zeros(1).untyped_storage()), torch.is_storage(torch.zeros(1))
    (True, False)
    """
    storage = load("rushlight.storage")
    return isinstance(obj, (storage.UntypedStorage, storage.TypedStorage))


@compiled()
def numel(input: Tensor) -> int:
    """The number of elements.

    >>> torch.numel(torch.zeros(2, 3))
    6
    """
    return input.numel()


@compiled()
def get_device(input: Tensor) -> int:
    """The index of the GPU, or -1 on the CPU.

    >>> torch.get_device(torch.zeros(1))
    -1
    """
    return input.get_device()


@compiled()
def detach(input: Tensor) -> Tensor:
    """A tensor with the same memory that is not part of the graph.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.detach(x * 2).requires_grad
    False
    """
    return input.detach()


@compiled()
def detach_(input: Tensor) -> Tensor:
    """`detach` in place: removes the tensor from the graph.

    >>> x = torch.ones(1, requires_grad=True) * 2
    >>> torch.detach_(x).requires_grad
    False
    """
    return input.detach_()


@compiled()
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether values of dtype ``from_`` may be written to tensors of dtype ``to``.

    >>> torch.can_cast(torch.float32, torch.int32)
    False
    """
    return _C._can_cast(from_, to)


@compiled()
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both dtypes can be converted to.

    >>> torch.promote_types(torch.int8, torch.uint8)
    torch.int16
    """
    return _C._promote_types(type1, type2)


@compiled(
    "Tensor tensor, Tensor other",
    "Scalar scalar, Tensor tensor",
    "Tensor tensor, Scalar other",
    "Scalar scalar1, Scalar scalar2",
)
def result_type(tensor: Tensor | complex, other: Tensor | complex) -> dtype:
    """The dtype of arithmetic with two operands.

    >>> torch.result_type(torch.tensor([1]), 1.5)
    torch.float32
    """
    return _C._result_type(tensor, other)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape to which tensors of these shapes broadcast. A number stands for a shape of one dimension; None counts for nothing.

    Raises:
        RuntimeError: the shapes do not broadcast, or an argument is no shape.
        ValueError: a size is negative.

    >>> torch.broadcast_shapes((2,), (3, 1))
    torch.Size([3, 2])
    """
    found: list[Sequence[int]] = []
    for shape in shapes:
        if shape is not None and not isinstance(shape, int | Sequence):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}")
        if shape is not None:
            found.append((shape,) if isinstance(shape, int) else shape)
    common = [1] * max(map(len, found), default=0)
    for place, sizes in enumerate(found):
        for at in range(-1, -1 - len(sizes), -1):
            size = sizes[at]
            if common[at] == 1:
                if size < 0:
                    raise ValueError("Attempting to broadcast a dimension with negative length!")
                common[at] = size
            elif size not in (1, common[at]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {size} at {at}! Mismatching argument at index {place} had "
                    f"{sizes}; but expected shape should be broadcastable to {common}"
                )
    return Size(common)


def compiled_with_cxx11_abi() -> bool:
    """Always True. Programs that build extensions call it.

    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


@compiled("Tensor input")
def is_distributed(input: Tensor) -> bool:
    """Whether the elements are on several machines: always False.

    >>> torch.is_distributed(torch.ones(1))
    False
    """
    return input.is_distributed()


def get_device_module(device: device | str | None = None) -> ModuleType:
    """The module of a type of device: `torch.cpu` by default, because there is no accelerator.

    Raises:
        RuntimeError: there is no such module, or the argument is no device.

    >>> torch.get_device_module("cpu").__name__
    'rushlight.cpu'
    """
    if device is None:
        kind = "cpu"
    elif isinstance(device, (_C.device, str)):
        kind = _C.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return load(f"rushlight.{kind}")


def is_vulkan_available() -> bool:
    """Whether operators can run on Vulkan: always False.

    >>> torch.is_vulkan_available()
    False
    """
    return False


__all__ = [
    "broadcast_shapes",
    "can_cast",
    "compiled_with_cxx11_abi",
    "detach",
    "detach_",
    "get_device",
    "get_device_module",
    "is_complex",
    "is_conj",
    "is_distributed",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_vulkan_available",
    "numel",
    "promote_types",
    "result_type",
    "typename",
]
