"""Launches a kernel of each skeleton on the card made of software and compares the results with NumPy's; see `test_skeletons.py`.

`python skeleton_program.py FOLDER` keeps compiled programs in the folder, for the next run.
"""

import ctypes
import hashlib
import itertools
import sys
from pathlib import Path

import numpy as np
from engine_programs import KERNELS, elementwise, filled, lines, programs, reduction, sort

COMPILED = Path(sys.argv[1])
HEADERS = [path for path in sorted(KERNELS.glob("*.cuh")) if path.name != "expressions.cuh"]
cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
Pointer, Size, U32, U64, I64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int64


class Place(ctypes.Structure):
    """Where the random numbers of a call begin."""

    _fields_ = [("seed", U64), ("offset", U64), ("run", U64)]


class Numbers(ctypes.Structure):
    _fields_ = [("bits", U64 * 2 * 12), ("count", U32)]

    def __init__(self, *values):
        super().__init__(count=len(values))
        for n, value in enumerate(values):
            ctypes.memmove(self.bits[n], value.tobytes(), value.nbytes)


def loops(*arrays):
    """Nested loops over arrays of one shape, the innermost first."""

    class Loops(ctypes.Structure):
        _fields_ = [
            ("rank", U32),
            ("sizes", U64 * 12),
            ("strides", I64 * len(arrays) * 12),
            ("multipliers", U32 * 12),
            ("shifts", U32 * 12),
        ]

    made = Loops(rank=arrays[0].ndim)
    for at in range(arrays[0].ndim):
        made.sizes[at] = size = arrays[0].shape[-1 - at]
        made.shifts[at] = (size - 1).bit_length()
        made.multipliers[at] = ((2 ** made.shifts[at] - size) << 32) // size + 1
        for n, array in enumerate(arrays):
            made.strides[at][n] = array.strides[-1 - at]
    return made


def ok(status):
    assert status == 0, status


def compiled(source):
    """The image of a program."""
    program, size = Pointer(), Size()
    texts = [path.read_bytes() for path in HEADERS]
    contents = (ctypes.c_char_p * len(texts))(*texts)
    titles = (ctypes.c_char_p * len(texts))(*(path.name.encode() for path in HEADERS))
    ok(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", len(texts), contents, titles))
    status = nvrtc.nvrtcCompileProgram(program, 0, None)
    if status:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.value.decode())
    ok(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    return image.raw


def built(source, *names):
    """The kernels of a program."""
    kept, module = COMPILED / hashlib.sha256(source.encode()).hexdigest(), Pointer()
    if not kept.exists():
        kept.write_bytes(compiled(source))
    ok(cuda.cuModuleLoadData(ctypes.byref(module), kept.read_bytes()))
    functions = [Pointer() for _ in names]
    for function, name in zip(functions, names, strict=True):
        ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return functions


def on_card(array):
    """The address of a copy of an array, which is contiguous."""
    address = Pointer()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(address), Size(max(array.nbytes, 1))))
    if array.nbytes:
        ok(cuda.cuMemcpyHtoDAsync_v2(address, array.ctypes.data_as(Pointer), Size(array.nbytes), None))
    return address.value


def from_card(address, array):
    if array.nbytes:
        ok(cuda.cuMemcpyDtoHAsync_v2(array.ctypes.data_as(Pointer), Pointer(address), Size(array.nbytes), None))
    return array


def launch(function, grid, *arguments):
    pointers = (Pointer * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
    ok(cuda.cuLaunchKernel(function, *grid, 1, 256, 1, 1, 0, None, pointers, None))
    ok(cuda.cuCtxSynchronize())


def check_elementwise(kinds, dtypes, items, packs):
    """Operands that end before, at and after the end of a pack and of a tile; rows of packs; and elements without an order."""
    compute, *types = kinds
    forms = ("Flat", items, packs, "u32"), ("Strided", items, packs, "u32"), ("Strided", 1, 4, "u64")
    value = f"x0 * x1 + number<{compute}>(numbers, 0)"
    flat, packed, strided = (
        built(elementwise(form, value, compute, types, *shape), "run")[0] for form, *shape in forms
    )
    to, *own = map(np.dtype, dtypes)
    number = np.array(3, "f4" if compute == "f32" else to)

    def made(*shape):
        return [random.integers(0, 9, shape).astype(dtype) for dtype in own]

    def check(x, y, kernel, grid, count, *nest):
        out = np.zeros(np.broadcast_shapes(x.shape, y.shape), to)
        address = on_card(out)
        views = [out, *(np.broadcast_to(array, out.shape) for array in (x, y))]
        operands = (U64 * 3)(address, on_card(x), on_card(y))
        launch(kernel, (grid, 1), operands, Numbers(number), U64(count), *(over(views) for over in nest))
        assert np.array_equal(from_card(address, out), (x.astype(number.dtype) * y + number).astype(to))

    def in_packs(views):
        made = loops(*views)
        for n, view in enumerate(views):
            made.strides[0][n] = items * view.itemsize
        made.sizes[0] = size = views[0].shape[-1] // items
        made.shifts[0] = (size - 1).bit_length()
        made.multipliers[0] = ((2 ** made.shifts[0] - size) << 32) // size + 1
        return made

    tile = 256 * packs * items
    for count in {1, items - 1, items, items + 1, tile - items, tile - 1, tile, tile + 1, 3 * tile + items + 1} - {0}:
        check(*made(count), flat, -(-count // tile), count)
    for rows, columns in [(3, items), (7, 3 * items), (70, 16 * items)]:
        (x, _), (_, y) = made(rows, columns), made(columns)
        count = rows * columns // items
        check(x, y, packed, -(-count // (256 * packs)), count, in_packs)
    for rows, columns in [(1, 1), (5, 205), (31, 33), (32, 32), (205, 25)]:
        (x, _), (_, y) = made(rows, columns), made(columns)
        check(x, y, strided, -(-rows * columns // 1024), rows * columns, lambda views: loops(*views))


def check_transpose(kind, dtype):
    [transposed] = built(elementwise("Transposed", "x0", kind, (kind, kind), 1, 4), "run")
    for batch, rows, columns in [(1, 32, 64), (3, 70, 33), (2, 8, 100)]:
        x = random.integers(0, 255, (batch, columns, rows)).astype(dtype)
        out = np.zeros((batch, rows, columns), dtype)
        address = on_card(out)
        squares = -(-rows // 32) * -(-columns // 32) * batch
        over = loops(out, x.transpose(0, 2, 1))
        launch(transposed, (3, 1), (U64 * 2)(address, on_card(x)), Numbers(), U64(squares), over)
        assert np.array_equal(from_card(address, out), x.transpose(0, 2, 1))


def check_reduce(even):
    functions = """
        DEVICE i64 start() { return 0; }
        DEVICE i64 take(i64 a, i64 x) { return wrapping_add(a, x); }
        DEVICE i64 join(i64 a, i64 b) { return wrapping_add(a, b); }
        DEVICE i64 done(i64 a, u64 n) { return a + i64(n); }
    """
    texts = {
        plan: reduction(plan, functions, "{}", "i64", "i64", "i64", "i32", even)
        for plan in ("Serial", "Rows", "Warps", "Columns")
    }
    [serial] = built(texts["Serial"], "serial")
    (rows, pieces), (warps, _), (columns, _) = (
        built(texts[plan], "rows", "pieces") for plan in ("Rows", "Warps", "Columns")
    )
    for count, length in [(5, 3), (3, 1000), (2, 20000), (40, 4096), (33, 500), (8, 4095), (130, 77)]:
        x = random.integers(-99, 99, (length, count), np.int32)
        for kernel in [serial] if length < 32 else [rows, warps, columns]:
            for rows_lie_together in {False, kernel is not columns}:
                lying = np.ascontiguousarray(x.T).T if rows_lie_together else x
                out = np.zeros(count, np.int64)
                address, start = on_card(out), on_card(lying)
                outer, inner = loops(out, lying[0]), loops(lying[:, 0])
                if not even:
                    # A row in two loops.
                    inside = next(size for size in (20, 16, 13, 11, 3) if length % size == 0)
                    strides = lying.strides[0] * inside, *lying.strides
                    inner = loops(
                        np.lib.stride_tricks.as_strided(lying, (length // inside, inside, count), strides)[:, :, 0]
                    )
                units = -(-count // 4) if kernel is columns else count
                head = U64(address), U64(start), outer, inner, U64(units), U64(length)
                if kernel is serial:
                    launch(serial, (1, 1), *head, Numbers())
                    assert np.array_equal(from_card(address, out), x.sum(0, dtype=np.int64) + length)
                    continue
                parts = -(-length // 8192) if kernel is not warps else 1
                piece = -(-length // parts // 16) * 16
                partial = on_card(np.zeros((count, parts), np.int64)) if parts > 1 else 0
                has_packs = count % 4 == 0 if kernel is columns else rows_lie_together and length % 4 == 0
                for packed, bits in itertools.product({False, has_packs and (even or inside % 4 == 0)}, (0, 2, 5)):
                    launch(kernel, (2, parts), *head, U64(piece), U32(packed), U32(bits), U64(partial), Numbers())
                    if partial:
                        tail = outer, U64(count), U64(parts), U64(length), Numbers()
                        launch(pieces, (1, 1), U64(address), U64(partial), *tail)
                    assert np.array_equal(from_card(address, out), x.sum(0, dtype=np.int64) + length)


def check_matmul(kind, dtype):
    class Matrices(ctypes.Structure):
        _fields_ = [("at", U64 * 4), ("rows", I64 * 4), ("columns", I64 * 4)]

    [text] = programs("matmul")
    [product] = built(filled(text, element=kind, sum=kind), "multiply")
    for batch, m, k, n, has_addend in [(1, 3, 4, 2, False), (2, 70, 33, 65, True), (1, 5, 0, 7, True)]:
        first = (random.normal(size=(batch, k, m)) * 3).astype(dtype)
        second = (random.normal(size=(batch, k, n)) * 3).astype(dtype)
        addend = (random.normal(size=n) * 3).astype(dtype)
        out = np.zeros((batch, m, n), dtype)
        views = (out, first.transpose(0, 2, 1), second, np.broadcast_to(addend, out.shape))
        address = on_card(out)
        matrices = Matrices()
        for n_, (start, view) in enumerate(
            zip((address, on_card(first), on_card(second), on_card(addend)), views, strict=True)
        ):
            matrices.at[n_], matrices.rows[n_], matrices.columns[n_] = start, view.strides[1], view.strides[2]
        over = loops(*(view[:, 0, 0] for view in views)) if k else loops(*(np.zeros(batch, dtype),) * 4)
        factors = Numbers(np.array(2, dtype), np.array(3, dtype))
        grid = (-(-m // 64) * -(-n // 64), batch)
        launch(product, grid, matrices, over, U64(batch), (U64 * 3)(m, n, k), U32(has_addend), factors)
        wanted = 2 * (views[1] @ second) + (3 * views[3] if has_addend else 0)
        np.testing.assert_allclose(from_card(address, out), wanted, rtol=1e-4, atol=1e-3)


def check_matrices(kind, dtype, integers):
    """The elements lie in the registers as PTX's reference has them, and all of them differ."""
    source = f"""
        #include "matrix.cuh"
        using namespace rushlight;
        extern "C" __global__ void by_reference(const u16* a, const u16* b, f32* out) {{
            const int lane = threadIdx.x % WARP, group = lane >> 2, member = lane % 4;
            u32 left[4] = {{}}, right[2] = {{}};
            f32 sums[4];
            for (int i = 0; i < 8; i++) {{
                const int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
                const int column = member * 2 + (i & 1) + (i < 4 ? 0 : 8);
                left[i / 2] |= u32(a[row * 16 + column]) << i % 2 * 16;
            }}
            for (int i = 0; i < 4; i++) {{
                const int row = member * 2 + (i & 1) + (i < 2 ? 0 : 8);
                right[i / 2] |= u32(b[row * 8 + group]) << i % 2 * 16;
                sums[i] = i;
            }}
            add_product<{kind}>(sums, left, right[0], right[1]);
            for (int i = 0; i < 4; i++) {{
                out[(i < 2 ? group : group + 8) * 8 + member * 2 + (i & 1)] = sums[i];
            }}
        }}
        extern "C" __global__ void in_shared_memory(const u16* a, const u16* b, f32* out) {{
            __shared__ u128 bytes[16 * (16 + 16) * sizeof(u16) / sizeof(u128)];
            u16* const first = (u16*)bytes;
            u16* const second = first + 256;
            for (int n = threadIdx.x; n < 256; n += THREADS) {{
                first[n] = a[n];
                second[n] = n % 16 < 8 ? b[n / 16 * 8 + n % 16] : 0;
            }}
            __syncthreads();
            const int lane = threadIdx.x % WARP, place = lane % 16 * 16 + lane / 16 * 8;
            u32 left[4], right[4];
            f32 sums[4] = {{0, 1, 2, 3}};
            load_matrices(left, first + place);
            load_transposed(right, second + place);
            add_product<{kind}>(sums, left, right[0], right[1]);
            for (int i = 0; i < 4; i++) {{
                out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
            }}
        }}
    """
    order = random.permutation(256) + integers
    a, b = order.reshape(16, 16), random.permutation(order)[:128].reshape(16, 8)
    halves = [dtype(x) for x in (a, b)]
    start = np.add.outer(np.arange(16) // 8 * 2, np.arange(8) % 2)
    for kernel in built(source, "by_reference", "in_shared_memory"):
        out = np.zeros((16, 8), np.float32)
        address = on_card(out)
        launch(kernel, (1, 1), *(Pointer(on_card(x)) for x in halves), Pointer(address))
        assert np.array_equal(from_card(address, out), a @ b + start)


def check_indexed():
    texts = programs("indexed")
    [find], [take], [put] = (
        built(filled(text, element=element, name="Added", compute="f32"), kernel)
        for text, element, kernel in zip(texts, ("u32", "u32", "f32"), ("locate", "read", "merge"), strict=True)
    )
    x = random.normal(size=(6, 5)).astype(np.float32)
    index = random.integers(-6, 6, 40)
    start, places = on_card(x), on_card(index)
    outside, offsets = on_card(np.full(1, 2**64 - 1, np.uint64)), on_card(np.zeros(40, np.int64))
    over = loops(index, index)
    launch(find, (2, 1), U64(offsets), U64(places), U64(40), over, I64(6), I64(20), U32(1), U32(1), U64(outside))
    assert from_card(outside, np.zeros(1, np.uint64))[0] == 2**64 - 1
    assert np.array_equal(from_card(offsets, np.zeros(40, np.int64)), index % 6 * 20)
    launch(find, (2, 1), U64(0), U64(places), U64(40), over, I64(6), I64(0), U32(0), U32(1), U64(outside))
    assert from_card(outside, np.zeros(1, np.uint64))[0] == np.flatnonzero(index < 0)[0]
    out = np.zeros((40, 5), np.float32)
    address, target = on_card(out), on_card(x)
    list_ = np.zeros(40, np.int64)
    rows = np.broadcast_to(x[:1], out.shape), np.broadcast_to(list_[:, None], out.shape)
    launch(take, (1, 1), (U64 * 3)(address, start, offsets), U64(out.size), loops(out, *rows), I64(1))
    assert np.array_equal(from_card(address, out), x[index])
    columns = loops(x[0], out[0], np.broadcast_to(list_[:1], 5))
    launch(put, (1, 1), (U64 * 3)(target, address, offsets), U64(5), columns, U64(40), I64(1), I64(20), I64(8))
    wanted = x.copy()
    np.add.at(wanted, index, out)
    assert np.array_equal(from_card(target, np.zeros_like(x)), wanted)


def check_lines():
    class Shape(ctypes.Structure):
        _fields_ = [(name, U64) for name in ("lines", "n", "inner", "piece", "pieces")] + [("thread_bits", U32)]

    def kernels(along, alone):
        sums = lines("CumulativeSum<i32, i64, i64, i64>", 3, True, along, alone, 4)
        tops = lines("Best<f32, f32, true, true>", 2, False, along, alone, 4)
        return *built(sums, "results", "totals", "joined"), *built(tops, "results")

    for outer, n, inner, bits in [
        (2, 3, 4, 0),
        (3, 5, 1, 0),
        (1, 256, 1, 5),
        (2, 1000, 3, 2),
        (3, 5000, 1, 8),
        (2, 6145, 1, 8),
        (2, 3000, 1, 7),
        (1, 700, 40, 3),
    ]:
        x = random.integers(-99, 99, (outer, n, inner), np.int32)
        results, totals, joined, top = kernels(inner == 1, bits == 8)
        count = outer * inner
        tile = 8 << bits
        for piece in (n, tile, 2 * tile):
            pieces = -(-n // piece)
            address, before = on_card(np.zeros(x.shape, np.int64)), on_card(np.zeros(count * pieces, np.int64))
            operands, shape = (U64 * 4)(address, 0, on_card(x), 0), Shape(count, n, inner, piece, pieces, bits)
            if pieces > 1:
                launch(totals, (3, 1), operands, shape, U64(before))
                launch(joined, (3, 1), (U64 * 4)(0, 0, before, 0), Shape(count, pieces, 1, pieces, 1, 2))
            launch(results, (3, 1), operands, shape, U64(before))
            assert np.array_equal(from_card(address, np.zeros(x.shape, np.int64)), x.cumsum(1))
        y = random.integers(0, 9, x.shape).astype(np.float32)
        y[0, n // 2, 0] = np.nan
        values, places = on_card(np.zeros((outer, inner), np.float32)), on_card(np.zeros((outer, inner), np.int64))
        launch(top, (3, 1), (U64 * 4)(values, places, on_card(y), 0), Shape(count, n, inner, n, 1, bits), U64(0))
        assert np.array_equal(from_card(places, np.zeros((outer, inner), np.int64)), y.argmax(1))
        assert np.array_equal(from_card(values, np.zeros((outer, inner), np.float32)), y.max(1), equal_nan=True)


def check_order():
    class Digits(ctypes.Structure):
        _fields_ = [
            *(
                (name, U64)
                for name in ("source", "keys", "from_", "keys_to", "to", "places", "counts", "lines", "n", "tiles")
            ),
            *((name, U32) for name in ("shift", "descending")),
        ]

    whole, count, move, take = built(sort("f32", "u32", "u32", "u32"), "whole", "count", "move", "take")
    for rows, n in [(7, 3), (2, 1000), (1, 2048), (2, 9000)]:
        x = random.integers(-20, 20, (rows, n)).astype(np.float32)
        x[0, n // 2], x[0, 1:3] = np.nan, -0.0
        found, keys = on_card(np.zeros(x.shape, np.int64)), on_card(x)
        if n <= 2048:
            launch(whole, (2, 1), U64(keys), U64(found), U64(rows), U64(n), U32((n - 1).bit_length()), U32(0))
        else:
            buffers = [[on_card(np.zeros(x.shape, np.uint32)) for _ in range(2)] for _ in range(2)]
            tiles = -(-n // 4096)
            counts = np.zeros((rows, 256 * tiles), np.uint32)
            before, after = [0, 0], buffers[0]
            for byte in range(4):
                counted = on_card(counts)
                digits = Digits(
                    0 if byte else keys, *before, *after, 0 if byte < 3 else found, counted, rows, n, tiles, 8 * byte
                )
                launch(count, (3, 1), digits)
                digits.counts = on_card(from_card(counted, counts.copy()).cumsum(1, np.uint32))
                launch(move, (3, 1), digits)
                before, after = after, buffers[(byte + 1) % 2] if byte < 2 else [0, 0]
        assert np.array_equal(from_card(found, np.zeros(x.shape, np.int64)), x.argsort(1, kind="stable"))
        values = on_card(np.zeros_like(x))
        launch(take, (2, 1), U64(keys), U64(found), U64(values), U64(x.size), U64(n))
        assert np.array_equal(from_card(values, np.zeros_like(x)), np.sort(x), equal_nan=True)


def check_random():
    text = programs("random")[0]
    [uniform], [normal] = (
        built(filled(text, name=name, element="f32", drawn="f32"), "fill") for name in ("Uniform", "Normal")
    )
    out = np.zeros(1000, np.float32)
    address = on_card(out)
    numbers = Numbers(np.float64(0), np.float64(1), np.float64(1))
    launch(uniform, (4, 1), U64(address), U64(1000), loops(out), Place(), numbers)
    # Here and below the first numbers after torch's `manual_seed(0)` on a GPU.
    assert np.allclose(from_card(address, out)[:3], [0.3990, 0.5167, 0.0249], atol=5e-5)
    numbers = Numbers(np.float64(0), np.float64(1))
    launch(normal, (4, 1), U64(address), U64(1000), loops(out), Place(), numbers)
    drawn = from_card(address, out)
    assert abs(drawn.mean()) < 0.1 and abs(drawn.std() - 1) < 0.1
    assert np.allclose(drawn[:3], [-0.9247, -0.4253, -2.6438], atol=5e-5)


random = np.random.default_rng(0)
context = Pointer()
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
for kinds, dtypes, items, packs in [
    (("f32", "f32", "f16", "i32"), ("f4", "f2", "i4"), 4, 2),
    (("f32", "f16", "f16", "f16"), ("f2", "f2", "f2"), 8, 2),
    (("u8", "u8", "u8", "u8"), ("u1", "u1", "u1"), 16, 1),
    (("f64", "f64", "u8", "f32"), ("f8", "u1", "f4"), 2, 2),
    (("c128", "c128", "c128", "f64"), ("c16", "c16", "f8"), 1, 2),
]:
    check_elementwise(kinds, dtypes, items, packs)
for kind, dtype in [
    ("u8", np.uint8),
    ("u16", np.uint16),
    ("f32", np.float32),
    ("u64", np.uint64),
    ("c128", np.complex128),
]:
    check_transpose(kind, dtype)
check_reduce(even=True)
check_reduce(even=False)
check_indexed()
check_lines()
check_order()
check_random()
for kind, dtype in [("f32", np.float32), ("c64", np.complex64), ("i32", np.int32)]:
    check_matmul(kind, dtype)
check_matrices("f16", np.float16, 300)
check_matrices(
    "bf16", lambda x: np.ascontiguousarray(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), -127
)
print("equal")
