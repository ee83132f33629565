"""`swap_tensors` and `benchmark`."""

import weakref

import pytest

import rushlight as torch
from rushlight import nn


def test_tensors_change_places():
    parameter, other = nn.Parameter(torch.ones(2)), torch.zeros(3, dtype=torch.float64)
    parameter.grad = torch.full((2,), 5.0)
    other.mark = 3
    held = [parameter, other]
    torch.utils.swap_tensors(parameter, other)
    assert type(held[0]) is torch.Tensor and held[0].tolist() == [0, 0, 0] and held[0].dtype == torch.float64
    assert held[0].mark == 3 and held[0].grad is None and not held[0].requires_grad
    assert type(held[1]) is nn.Parameter and held[1].tolist() == [1, 1] and held[1].requires_grad
    assert held[1].grad.tolist() == [5, 5] and not hasattr(held[1], "mark")


def test_tensors_that_cannot():
    x, known = torch.ones(2, requires_grad=True), torch.zeros(2)
    reference = weakref.ref(known)
    for first, second, sentence in [
        (x, known, "Cannot swap t2 because it has weakref associated with it"),
        (x * 2, torch.zeros(2), "Cannot swap t1 because it is the result of MulBackward0"),
        (x, torch.zeros(2, device="meta"), "Cannot swap a tensor on cpu with one on meta"),
    ]:
        with pytest.raises(RuntimeError, match=sentence):
            torch.utils.swap_tensors(first, second)
    assert x.tolist() == [1, 1] and x.requires_grad and reference() is known
    with pytest.raises(AttributeError, match="^'int' object has no attribute '_use_count'"):
        torch.utils.swap_tensors(x, 5)

    class Slotted(torch.Tensor):
        __slots__ = ("mark",)

    with pytest.raises(RuntimeError, match="^Cannot swap t1 and t2 if they have different slots"):
        torch.utils.swap_tensors(torch.ones(2).as_subclass(Slotted), torch.ones(2))


def test_a_statement_is_measured():
    benchmark = torch.utils.benchmark
    calls = []
    timer = benchmark.Timer("work(2)", "work(1)", globals={"work": calls.append}, label="list", description="append")
    found = timer.timeit(100)
    assert calls.count(2) == 102 and calls.count(1) == 2
    assert found.number_per_run == 100 and found.times == [found.raw_times[0] / 100] and found.title == "list"
    assert found.mean == found.median > 0 and found.iqr == 0
    assert "list\nappend\nsetup: work(1)\n" in repr(found) and "1 measurement, 100 runs , 1 thread" in repr(found)
    found = timer.blocked_autorange(min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01
    merged = benchmark.Measurement.merge([found, timer.timeit(10)])
    assert len(merged) == 1 and merged[0].number_per_run == 1 and len(merged[0].times) == len(found.times) + 1


def test_a_statement_runs_with_the_threads_it_asks_for():
    before, seen = torch.get_num_threads(), []
    timer = torch.utils.benchmark.Timer("look(torch.get_num_threads())", globals={"look": seen.append}, num_threads=2)
    timer.timeit(1)
    assert set(seen) == {2} and torch.get_num_threads() == before
    with pytest.raises(NameError):
        torch.utils.benchmark.Timer("nowhere", num_threads=before + 1).timeit(1)
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="Currently only a `str` stmt is supported"):
        torch.utils.benchmark.Timer(print)


def test_graphs_that_lead_to_swapped_tensors_are_refused():
    first, second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(2))
    before = first * 2
    torch.utils.swap_tensors(first, second)
    with pytest.raises(RuntimeError, match="^Trying to execute AccumulateGrad node that was poisoned by swap_tensors"):
        before.sum().backward()
    del before
    (first * 3).sum().backward()
    assert first.grad.tolist() == [3, 3] and second.grad is None
