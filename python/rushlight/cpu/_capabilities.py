"""What the processor can do, as the system tells it."""

from __future__ import annotations

import functools
import os
import platform
from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names of instruction sets, by processor, and those of the system where they differ.
_X86 = """sse sse2 sse3=pni ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx512_f=avx512f avx512_cd=avx512cd
    avx512_dq=avx512dq avx512_bw=avx512bw avx512_vl=avx512vl avx512_ifma=avx512ifma avx512_vbmi=avx512vbmi avx512_vbmi2
    avx512_bitalg avx512_vpopcntdq avx512_vnni avx512_bf16 avx512_fp16 avx512_vp2intersect avx512_4vnniw avx512_4fmaps
    avx10_1 avx10_2 avx_vnni_int8 avx_vnni_int16 avx_ne_convert amx_bf16 amx_tile amx_int8 amx_fp16 fma3=fma fma4 f16c
    bmi=bmi1 bmi2 popcnt lzcnt=abm aes sha=sha_ni clflush clflushopt clwb"""
_ARM = """neon=asimd fp16_arith=asimdhp bf16 i8mm dot=asimddp atomics sve sve2 sve_bf16=svebf16 sve_i8mm=svei8mm sme sme2
    aes sha1 sha2 pmull crc32 rdm=asimdrdm"""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _cache_size(level: int, kinds: tuple[str, ...]) -> int:
    folder = "/sys/devices/system/cpu/cpu0/cache"
    for index in range(8):
        here = f"{folder}/index{index}"
        if _read(f"{here}/level").strip() == str(level) and _read(f"{here}/type").strip() in kinds:
            size = _read(f"{here}/size").strip()
            factor = {"K": 1024, "M": 1024**2}.get(size[-1:], 1)
            return int(size.rstrip("KM") or 0) * factor
    return 0


@functools.cache
def get_capabilities() -> Mapping[str, str | int | bool]:
    """The processor's name, its instruction sets by name, and the number of its cores.

    On a system without ``/proc/cpuinfo``, no instruction set is known to be there.

    >>> torch.cpu.get_capabilities()["num_logical_cores"] > 0
    True
    """
    machine = platform.machine()
    facts: dict[str, set[str]] = {}
    cores = set()
    for processor in _read("/proc/cpuinfo").split("\n\n"):
        fields = {
            name.strip(): value.strip() for name, _, value in (line.partition(":") for line in processor.splitlines())
        }
        for name, value in fields.items():
            facts.setdefault(name, set()).add(value)
        if "core id" in fields:
            cores.add((fields.get("physical id"), fields["core id"]))
    flags = {flag for name in ("flags", "Features") for value in facts.get(name, ()) for flag in value.split()}
    arm = machine in ("aarch64", "arm64")
    logical = os.cpu_count() or 1
    found: dict[str, str | int | bool] = {
        "architecture": machine,
        "cpu_name": min(facts.get("model name", {platform.processor()})),
        "num_sockets": max(1, len(facts.get("physical id", ()))),
        "num_physical_cores": len(cores) or logical,
        "num_logical_cores": logical,
        "l1d_cache_size": _cache_size(1, ("Data", "Unified")),
        "l2_cache_size": _cache_size(2, ("Data", "Unified")),
    }
    for name in (_ARM if arm else _X86).split():
        own, _, of_system = name.partition("=")
        found[own] = (of_system or own) in flags
    return MappingProxyType(found)


def _get_cpu_capability() -> dict[str, str | int | bool]:
    """What `get_capabilities` tells, as `torch._C._cpu` has it.

    >>> torch._C._cpu._get_cpu_capability() == dict(torch.cpu.get_capabilities())
    True
    """
    return dict(get_capabilities())


def _init_amx() -> bool:
    """Whether the tiles of Intel's processors were made ready. The engine has no loops for them.

    >>> torch.cpu._init_amx()
    False
    """
    return False


def _has(*names: str) -> bool:
    """Whether the processor has instruction sets."""
    return all(get_capabilities().get(name, False) for name in names)


def _is_avx2_supported() -> bool:
    """Whether the processor has AVX2.

    >>> torch.cpu._is_avx2_supported() == torch.cpu.get_capabilities().get("avx2", False)
    True
    """
    return _has("avx2")


def _is_avx512_supported() -> bool:
    """Whether the processor has the parts of AVX-512 that loops need: F, VL, BW and DQ.

    >>> torch.cpu._is_avx512_supported() <= torch.cpu._is_avx2_supported()
    True
    """
    return _has("avx512_f", "avx512_vl", "avx512_bw", "avx512_dq")


def _is_avx512_bf16_supported() -> bool:
    """Whether the processor multiplies bfloat16 in AVX-512.

    >>> torch.cpu._is_avx512_bf16_supported() <= torch.cpu._is_avx512_supported()
    True
    """
    return _is_avx512_supported() and _has("avx512_bf16")


def _is_vnni_supported() -> bool:
    """Whether the processor multiplies bytes in AVX-512.

    >>> torch.cpu._is_vnni_supported() == torch.cpu.get_capabilities().get("avx512_vnni", False)
    True
    """
    return _has("avx512_vnni")


def _is_amx_tile_supported() -> bool:
    """Whether the processor has tiles.

    >>> torch.cpu._is_amx_tile_supported() == torch.cpu.get_capabilities().get("amx_tile", False)
    True
    """
    return _has("amx_tile")


def _is_amx_fp16_supported() -> bool:
    """Whether the processor's tiles multiply float16.

    >>> torch.cpu._is_amx_fp16_supported() <= torch.cpu._is_amx_tile_supported()
    True
    """
    return _has("amx_tile", "amx_fp16")
