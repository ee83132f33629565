"""Ranges and marks of NVTX, which the card made of software writes down as a tool that watches the program."""

import os

import pytest
import soft_card
from soft_card import needs_soft_card

import rushlight as torch


def watched(tmp_path, program, **variables):
    """The lines that a tool hears of a program."""
    lines = tmp_path / "lines"
    tool = str(soft_card.FOLDER / "libcuda.so.1")
    soft_card.run(program, NVTX_INJECTION64_PATH=tool, SOFTCUDA_NVTX=lines, **variables)
    return lines.read_text().splitlines() if lines.exists() else []


@needs_soft_card
def test_a_tool_hears_marks_and_ranges(tmp_path):
    program = """
    import threading
    nvtx = torch.cuda.nvtx
    assert nvtx.range_push("outer") == 0 and nvtx.range_push("inner") == 1
    nvtx.mark("here")
    assert nvtx.range_pop() == 1 and nvtx.range_pop() == 0
    number = nvtx.range_start("anywhere")
    ending = threading.Thread(target=lambda: nvtx.range_end(number))
    ending.start()
    ending.join()
    with nvtx.range("epoch {} of {total}", 3, total=9):
        pass

    @nvtx.range("call")
    def called():
        return 5

    assert called() == 5
    """
    assert watched(tmp_path, program) == [
        "push outer",
        "push inner",
        "mark here",
        "pop",
        "pop",
        "start 1 anywhere",
        "end 1",
        "push epoch 3 of 9",
        "pop",
        "push call",
        "pop",
    ]


@needs_soft_card
def test_a_range_of_a_streams_work_begins_and_ends_after_the_work_before_it(tmp_path):
    program = """
    nvtx = torch.cuda.nvtx
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        handle = nvtx._device_range_start("copies", stream.cuda_stream)
        x = torch.ones(4, device="cuda") + 1
        nvtx._device_range_end(handle, stream.cuda_stream)
    nvtx.mark("enqueued")
    stream.synchronize()
    nvtx.mark("run")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        try:
            nvtx._device_range_start("captured", torch.cuda.current_stream().cuda_stream)
        except RuntimeError as error:
            assert "cannot be recorded in a graph" in str(error)
        else:
            raise AssertionError
    """
    assert watched(tmp_path, program) == ["mark enqueued", "start 1 copies", "end 1", "mark run"]


@needs_soft_card
def test_operators_and_nodes_are_ranges_under_emit_nvtx(tmp_path):
    program = """
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    y = torch.ones(3)
    emit = torch.autograd.profiler.emit_nvtx(record_shapes=True)
    with emit:
        with torch.profiler.record_function("step"):
            z = x.exp()
        torch.exp(y)
        z.sum().backward()
        try:
            torch.ones(2) + torch.ones(3)
        except RuntimeError:
            pass
        try:
            emit.__enter__()
        except RuntimeError as error:
            assert "not reentrant" in str(error)
        else:
            raise AssertionError
    with torch.autograd.profiler.profile() as profiled:
        x.exp()
    assert [event.name for event in profiled.function_events] == ["aten::exp"]
    """
    lines = watched(tmp_path, program)
    assert lines[:4] == ["push step", "push aten::exp, sizes = [[2, 3]]", "pop", "pop"]
    assert "push aten::exp, sizes = [[3]]" in lines
    assert "push ExpBackward0" in lines
    depth = 0
    for line in lines:
        depth += 1 if line.startswith("push") else -1
        assert depth >= 0
    assert depth == 0


@needs_soft_card
def test_sizes_are_in_ranges_while_emit_nvtx_asks_for_them(tmp_path):
    program = """
    profiler = torch.autograd.profiler
    x, y = torch.ones(2), torch.ones(3)
    with profiler.emit_nvtx(record_shapes=True):
        with profiler.profile():
            torch.exp(x)
        torch.exp(y)
        assert profiler._profiler_enabled() is True  # as in torch
    assert profiler._profiler_enabled() is False
    with profiler.emit_nvtx():
        torch.exp(x)
    """
    begun = [line for line in watched(tmp_path, program) if line.startswith("push")]
    assert begun == ["push aten::exp, sizes = [[2]]", "push aten::exp, sizes = [[3]]", "push aten::exp"]


@needs_soft_card
def test_without_a_tool_nothing_is_counted():
    soft_card.run(
        """
        assert torch.cuda.nvtx.range_push("a") == -2 and torch.cuda.nvtx.range_pop() == -2
        handle = torch.cuda.nvtx._device_range_start("b")
        torch.cuda.nvtx._device_range_end(handle)
        with torch.autograd.profiler.emit_nvtx():
            torch.ones(1, device="cuda") + 1
        """,
        NVTX_INJECTION64_PATH="/there/is/none.so",
    )


@pytest.mark.skipif("NVTX_INJECTION64_PATH" in os.environ, reason="a tool watches")
def test_ranges_need_no_driver():
    nvtx = torch.cuda.nvtx
    assert (nvtx.range_push("a"), nvtx.range_pop(), nvtx.range_start("b")) == (-2, -2, 0)
    assert nvtx.range_end(0) is None and nvtx.mark("c") is None
    with pytest.raises(TypeError):
        nvtx.range_push(3)
