"""Allocators that programs bring, as libraries that a C compiler makes, on the card made of software."""

import shutil
import subprocess

import pytest
import soft_card
from soft_card import needs_soft_card

COMPILER = shutil.which("cc")
pytestmark = [needs_soft_card, pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")]

SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <sys/types.h>

static int balance, refused;

static void* driver(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }

void* take(ssize_t size, int device, void* stream) {
    unsigned long long address = 0;
    if (refused) return 0;
    int (*allocate)(unsigned long long*, size_t) = driver("cuMemAlloc_v2");
    if (allocate(&address, size)) return 0;
    balance++;
    fprintf(stderr, "take %zd %d %d\n", size, device, stream != 0);
    return (void*)address;
}

void give(void* address, ssize_t size, int device, void* stream) {
    int (*release)(unsigned long long) = driver("cuMemFree_v2");
    if (release((unsigned long long)address)) return;
    balance--;
    fprintf(stderr, "give %zd %d %d\n", size, device, stream != 0);
}

/* Leaves the context of another device current. */
void* wander(ssize_t size, int device, void* stream) {
    void* context = 0;
    int (*retain)(void**, int) = driver("cuDevicePrimaryCtxRetain");
    int (*select)(void*) = driver("cuCtxSetCurrent");
    void* address = take(size, device, stream);
    if (retain(&context, 1) || select(context)) return 0;
    return address;
}

int count(void) { return balance; }
void refuse(int yes) { refused = yes; }
"""


@pytest.fixture
def library(tmp_path):
    source, made = tmp_path / "allocator.c", tmp_path / "allocator.so"
    source.write_text(SOURCE)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True, timeout=120)
    return made


def test_functions_of_a_library_give_out_all_memory(library):
    soft_card.run(
        f"""
        import ctypes
        path = {str(library)!r}
        """
        + """
        count = ctypes.CDLL(path).count
        memory = torch.cuda.memory
        allocator = memory.CUDAPluggableAllocator(path, "take", "give")
        assert memory.get_allocator_backend() == "native"
        memory.change_current_allocator(allocator)
        assert memory.get_allocator_backend() == "pluggable" and memory._get_current_allocator() is allocator
        x = torch.arange(1000.0, device="cuda")
        assert count() == 1
        assert (x * 2).sum().item() == 999000 and count() == 1
        stream = torch.cuda.Stream()
        y = torch.ones(5, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = y + 1
            y.record_stream(stream)
        del y
        assert z.tolist() == [2.0] * 5 and count() == 2
        del x, z
        assert count() == 0

        def raises(kind, text, run):
            try:
                run()
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)

        raises(RuntimeError, "Can't swap an already initialized allocator", lambda: memory.change_current_allocator(allocator))
        raises(RuntimeError, "CUDAPluggableAllocator does not yet support getDeviceStats", torch.cuda.memory_allocated)
        raises(RuntimeError, "CUDAPluggableAllocator does not yet support snapshot", torch.cuda.memory_snapshot)
        torch.cuda.empty_cache()
        ctypes.CDLL(path).refuse(1)
        raises(torch.OutOfMemoryError, "CUDA out of memory", lambda: torch.ones(3, device="cuda"))
        raises(AttributeError, "nothing", lambda: memory.CUDAPluggableAllocator(path, "nothing", "give"))
        raises(OSError, "/there/is/none.so", lambda: memory.CUDAPluggableAllocator("/there/is/none.so", "take", "give"))
        """
    )


def test_functions_may_change_the_context(library):
    soft_card.run(
        f"""
        memory = torch.cuda.memory
        memory.change_current_allocator(memory.CUDAPluggableAllocator({str(library)!r}, "wander", "give"))
        x = torch.ones(8, device="cuda:0")
        for call in (lambda: x + x, lambda: x[1:] + x[1:], lambda: x.cumsum(0) * 0 + 2, lambda: x.sum() - 6):
            assert call().eq(2).all().item()
        """,
        SOFTCUDA_DEVICES=2,
    )


def test_an_allocator_is_not_changed_once_a_gpu_is_in_use(library):
    soft_card.run(
        f"""
        allocator = torch.cuda.memory.CUDAPluggableAllocator({str(library)!r}, "take", "give")
        torch.ones(1, device="cuda")
        try:
            torch.cuda.memory.change_current_allocator(allocator)
        except RuntimeError as error:
            assert str(error).startswith("Can't swap an already initialized allocator")
        else:
            raise AssertionError
        assert torch.cuda.memory.get_allocator_backend() == "native"
        """
    )


def test_functions_of_a_library_give_out_a_pools_memory(library):
    soft_card.run(
        f"""
        import ctypes
        path = {str(library)!r}
        """
        + """
        count = ctypes.CDLL(path).count
        allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "take", "give")
        pool = torch.cuda.MemPool(allocator.allocator())
        assert pool.allocator == allocator.allocator()
        outside = torch.ones(3, device="cuda")
        assert count() == 0
        with torch.cuda.use_mem_pool(pool):
            x = torch.ones(1000, device="cuda")
            y = torch.ones(1000, device="cuda")
        assert count() == 1 and len(pool.snapshot()) == 1
        del x
        torch.cuda.empty_cache()
        assert count() == 1 and y.sum().item() == 1000
        del pool
        assert count() == 1
        del y
        torch.cuda.empty_cache()
        assert count() == 0 and outside.sum().item() == 3
        """
    )
