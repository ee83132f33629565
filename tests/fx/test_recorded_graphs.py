"""Graphs of programs have torch's text, code and names."""

import json

import pytest
from graph_cases import RECORDED, built, names, programs

import rushlight as torch

EXPECTED = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("name", programs(torch))
def test_traced_graphs(name):
    root, options = programs(torch)[name]
    graph = torch.fx.symbolic_trace(root, **options).graph
    assert str(graph) == EXPECTED["graphs"][name]["text"]
    assert graph.python_code("self").src == EXPECTED["graphs"][name]["code"]


@pytest.mark.parametrize("name", built(torch))
def test_built_graphs(name):
    graph = built(torch)[name]
    assert str(graph) == EXPECTED["graphs"][name]["text"]
    assert graph.python_code("self").src == EXPECTED["graphs"][name]["code"]


def test_names():
    assert names(torch) == EXPECTED["names"]


def test_every_recorded_graph_is_compared():
    assert EXPECTED["graphs"].keys() == programs(torch).keys() | built(torch).keys()
