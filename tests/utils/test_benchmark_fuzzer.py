"""Random inputs for benchmarks and counts of functions (`torch.utils.benchmark`)."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.benchmark import (
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
    FuzzedParameter,
    FuzzedSparseTensor,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
)


def test_parameters_are_within_their_limits():
    state = np.random.RandomState(0)
    for kind in ("uniform", "loguniform"):
        drawn = {FuzzedParameter("n", 1, 4, kind).sample(state) for _ in range(200)}
        assert drawn == {1, 2, 3, 4} and all(type(value) is int for value in drawn)
        assert all(0.5 <= FuzzedParameter("n", 0.5, 1.5, kind).sample(state) <= 1.5 for _ in range(50))
    chosen = [FuzzedParameter("n", distribution={"a": 0.9, 2: 0.1}).sample(state) for _ in range(200)]
    assert set(chosen) == {"a", 2} and chosen.count("a") > 120


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"distribution": {1: 0.5}}, "Distribution is not normalized"),
        ({"minval": 1, "distribution": {1: 1.0}}, "must be None"),
        ({"minval": 1, "maxval": 2}, "Unknown distribution: None"),
        ({"distribution": "uniform"}, "must be given"),
    ],
)
def test_parameters_that_do_not_fit(options, sentence):
    with pytest.raises(AssertionError, match=sentence):
        FuzzedParameter("n", **options)


def test_tensors_follow_the_parameters():
    fuzzer = Fuzzer(
        [
            FuzzedParameter("n", 2, 8, "uniform"),
            [
                FuzzedParameter("m", distribution={1: 0.5, ParameterAlias("n"): 0.5}),
                FuzzedParameter("d", 1, 2, "uniform"),
            ],
        ],
        [
            FuzzedTensor("x", ("n", "m"), steps=(1, 2), dim_parameter="d", max_elements=40, probability_contiguous=0),
            FuzzedTensor("k", ("n",), dtype=torch.int64),
        ],
        constraints=[lambda n, m, d: n != 5],
        seed=1,
    )
    first = list(fuzzer.take(30))
    for tensors, properties, params in first:
        size = (params["n"], params["m"])[: params["d"]]
        assert tensors["x"].shape == size and tensors["x"].numel() <= 40 and params["n"] != 5
        assert params["m"] in (1, params["n"])
        assert properties["x"]["is_contiguous"] == tensors["x"].is_contiguous()
        assert tensors["k"].dtype is torch.int64
    assert {params["d"] for *_, params in first} == {1, 2} and 0 < fuzzer.rejection_rate < 1
    again = list(fuzzer.take(30))
    assert all(torch.equal(a[0]["x"], b[0]["x"]) for a, b in zip(first, again))


@pytest.mark.parametrize("coalesced", [True, False])
def test_sparse_tensors_have_their_density(coalesced):
    parameters = [
        FuzzedParameter("density", distribution={0.25: 1.0}),
        FuzzedParameter("c", distribution={coalesced: 1.0}),
    ]
    fuzzer = Fuzzer(parameters, [FuzzedSparseTensor("x", (8, 4), density="density", coalesced="c")], seed=0)
    ((tensors, properties, _),) = fuzzer.take(1)
    assert tensors["x"].layout is torch.sparse_coo and tensors["x"].is_coalesced() == coalesced
    assert properties["x"]["density"] == 0.25 and tensors["x"].coalesce()._nnz() <= 8


def test_what_a_fuzzer_refuses():
    one = FuzzedParameter("n", 1, 2, "uniform")
    with pytest.raises(ValueError, match="Duplicate names"):
        Fuzzer([one, one], [])
    with pytest.raises(ValueError, match="Duplicate names in parameters and tensors"):
        Fuzzer([one], [FuzzedTensor("n", ("n",))])
    with pytest.raises(RuntimeError, match="Failed to generate"):
        list(Fuzzer([one], [], constraints=[lambda n: False]).take(1))
    loop = [FuzzedParameter(a, distribution={ParameterAlias(b): 1.0}) for a, b in ("nm", "mn")]
    with pytest.raises(RuntimeError, match="Cycle"):
        list(Fuzzer(loop, []).take(1))


def test_counts_of_functions():
    counts = FunctionCounts((FunctionCount(10, "a"), FunctionCount(3, "b"), FunctionCount(7, "x")), inclusive=True)
    assert repr(counts).split("\n")[1:] == ["  10  a", "   3  b", "   7  x"]
    assert counts.sum() == 20 and len(counts) == 3 and counts[0] == (10, "a") and len(counts[:2]) == 2
    other = FunctionCounts((FunctionCount(4, "x"), FunctionCount(2, "new")), inclusive=True)
    assert list(counts - other) == [(10, "a"), (3, "x"), (3, "b"), (-2, "new")]
    assert (counts + counts).sum() == (counts * 2).sum() == 40
    assert list(counts.transform(lambda name: "one")) == [(20, "one")]
    assert list(counts.filter(lambda name: name != "x")) == [(10, "a"), (3, "b")]
    with pytest.raises(AssertionError, match="Cannot merge inclusive and exclusive counts"):
        counts - FunctionCounts((), inclusive=False)
    assert CopyIfCallgrind.unwrap_all({"a": CopyIfCallgrind(3, setup="import os"), "b": 4}) == {"a": 3, "b": 4}
