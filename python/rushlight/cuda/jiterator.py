"""`torch.cuda.jiterator`: elementwise operators that a program writes as a function of CUDA C++."""

from __future__ import annotations

import re
from functools import reduce

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor, dtype

__all__: list[str] = []

_TYPES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "float32": "float",
    "float64": "double",
}
_HALF = ("float16", "bfloat16")
_LAST_FUNCTION = re.compile(r"\s*template\s*<.+>\s*\w+\s+(\w+)\s*\(.+\)\s*\{.+\}\s*", re.DOTALL)
_THREADS = 256
_MOST = 8


def _category(kind: dtype) -> int:
    """Truth values, integers, floats and complex numbers, from 0 on."""
    return 3 if kind.is_complex else 2 if kind.is_floating_point else 0 if kind == _C.bool else 1


def _common_dtype(tensors: tuple[Tensor, ...]) -> dtype:
    """The dtype of an operator on these tensors. Those without dimensions count only in a higher category."""
    import rushlight as torch

    single, wide = (
        [tensor.dtype for tensor in tensors if (tensor.dim() > 0) is has_dimensions] for has_dimensions in (False, True)
    )
    joined = [reduce(torch.promote_types, kinds) for kinds in (wide, single) if kinds]
    # The first one of the highest category.
    return max(joined, key=_category)


class _JittedFunction:
    """An elementwise operator from the text of a function.

    Args:
        code_string: a template of CUDA C++ with one type; the last function counts.
        return_by_ref: whether it writes its results to references, its last parameters.
        num_outputs: the number of results.
        kwargs: the numbers that follow the tensors among the parameters, with their defaults.
    """

    def __init__(self, code_string: str, return_by_ref: bool, num_outputs: int, **kwargs: Any) -> None:
        if not (return_by_ref or num_outputs == 1):
            raise AssertionError("Return by value only works for single output.")
        found = _LAST_FUNCTION.match(code_string)
        if found is None:
            raise Exception(f"Couldn't parse code, please check correctness:\n {code_string}")
        self.code_string, self.kernel_name = code_string, found[1]
        self.return_by_ref, self.num_outputs, self.kwargs_dict = return_by_ref, num_outputs, kwargs
        self._compiled: dict[tuple[int, str, int, tuple[bool, ...]], _C._CudaKernel] = {}

    def __call__(self, *tensors: Tensor, **kwargs: Any) -> Any:
        """The results for tensors, which are promoted and broadcast like those of `torch.add`."""
        import rushlight as torch

        if not torch.cuda.is_available():
            raise AssertionError("Jiterator is only supported on CUDA and ROCm GPUs, none are available.")
        if len(tensors) > _MOST:
            raise AssertionError(f"jiterator only supports up to 8 tensor inputs, got {len(tensors)}")
        if not 0 < self.num_outputs <= _MOST:
            raise AssertionError(f"jiterator only supports up to 8 outputs, got {self.num_outputs}")
        for key in kwargs:
            if key not in self.kwargs_dict:
                raise KeyError(f"{key} is not declared in function definition")
        numbers = tuple({**self.kwargs_dict, **kwargs}.values())
        devices = {tensor.device for tensor in tensors if tensor.dim() > 0 or tensor.is_cuda}
        if len(devices) != 1 or not next(iter(devices)).type == "cuda":
            names = " and ".join(sorted(str(device) for device in devices)) or "no device"
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {names}!\n"
                "  The jiterator takes tensors of one GPU, and numbers of the CPU beside them."
            )
        device = devices.pop()
        common = _common_dtype(tensors)
        name = str(common).removeprefix("torch.")
        computed = torch.float32 if name in _HALF else common
        if str(computed).removeprefix("torch.") not in _TYPES:
            raise NotImplementedError(f"jiterator: elements of {name} are not supported")
        with torch.no_grad(), torch.cuda.device(device):
            shared = torch.broadcast_tensors(*(tensor.detach().to(device, computed) for tensor in tensors))
            inputs = [tensor.contiguous() for tensor in shared]
            results = [torch.empty_like(inputs[0]) for _ in range(self.num_outputs)]
            count = inputs[0].numel()
            if count:
                kernel = self._kernel(
                    device.index or 0, _TYPES[str(computed).removeprefix("torch.")], len(inputs), numbers
                )
                grid = (min(-(-count // _THREADS), 65535), 1, 1)
                stream = torch.cuda.current_stream(device).cuda_stream
                kernel.launch(grid, (_THREADS, 1, 1), 0, stream, [*inputs, *results, count, *numbers])
            results = [result.to(common) for result in results]
        return results[0] if self.num_outputs == 1 else tuple(results)

    def _kernel(self, device: int, kind: str, inputs: int, numbers: tuple[Any, ...]) -> _C._CudaKernel:
        key = (device, kind, inputs, tuple(isinstance(number, float) for number in numbers))
        if key not in self._compiled:
            text = self._text(kind, inputs, numbers)
            self._compiled[key] = _C._CudaKernel(text, "rushlight_jitted", ["--device-as-default-execution-space"])
        return self._compiled[key]

    def _text(self, kind: str, inputs: int, numbers: tuple[Any, ...]) -> str:
        """The source of a kernel that calls the function for each element."""
        reads, writes = range(inputs), range(self.num_outputs)
        parameters = [
            *(f"const {kind}* in{n}" for n in reads),
            *(f"{kind}* out{n}" for n in writes),
            "unsigned long long count",
            *(f"{'double' if isinstance(number, float) else 'long long'} extra{n}" for n, number in enumerate(numbers)),
        ]
        values = [*(f"in{n}[at]" for n in reads), *(f"static_cast<{kind}>(extra{n})" for n, _ in enumerate(numbers))]
        if self.return_by_ref:
            body = (
                "".join(f"{kind} value{n}; " for n in writes)
                + f"{self.kernel_name}<{kind}>({', '.join([*values, *(f'value{n}' for n in writes)])}); "
                + " ".join(f"out{n}[at] = value{n};" for n in writes)
            )
        else:
            body = f"out0[at] = {self.kernel_name}<{kind}>({', '.join(values)});"
        return f"""{self.code_string}
extern "C" __global__ void rushlight_jitted({", ".join(parameters)}) {{
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; at < count; at += step) {{
        {body}
    }}
}}
"""


def _create_jit_fn(code_string: str, **kwargs: Any) -> _JittedFunction:
    """An elementwise operator from a function that returns its result.

    Args:
        code_string: a template of CUDA C++, such as ``template <typename T> T scaled(T x, T y, T by) { return x + by * y; }``. Other
            functions may stand before it.
        kwargs: numbers that follow the tensors among its parameters, with their defaults.

    Returns:
        a function of up to eight tensors on a GPU. Half precision is computed in `float32`. There are no gradients.

    Raises:
        Exception: the text is not such a function.
    """
    return _JittedFunction(code_string, False, 1, **kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> _JittedFunction:
    """An elementwise operator from a function that writes its results to references; see `_create_jit_fn`.

    Args:
        code_string: a template of CUDA C++, whose last parameters are the references.
        num_outputs: their number.
        kwargs: numbers that stand between the tensors and the references.
    """
    return _JittedFunction(code_string, True, num_outputs, **kwargs)


def __dir__() -> list[str]:
    return ["_create_jit_fn", "_create_multi_output_jit_fn"]
