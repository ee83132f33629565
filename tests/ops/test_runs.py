"""Elementwise operators over runs of every length: those that share a tile, and those that are computed where they lie."""

import numpy as np
import pytest

import rushlight as torch

RUNS = [1, 2, 31, 63, 64, 65, 100, 255, 256, 511, 512, 513, 1000, 1024, 1025]


@pytest.mark.parametrize("length", RUNS)
def test_runs_of_all_lengths(length):
    """Operands that lie in order, with gaps, and that repeat a row or a column, of one dtype and of several."""
    draw = np.random.default_rng(length)
    wide = draw.integers(-99, 99, (3, 7, 2 * length)).astype("float32")
    operands = {
        "in order": wide[..., :length].copy(),
        "with gaps": wide[..., :length],
        "every other": wide[..., ::2],
        "a row": wide[0, 0, :length].copy(),
        "a column": wide[:, :, :1].copy(),
        "a row of each matrix": wide[:, :1, :length].copy(),
        "rows": wide[0, :, :length].copy(),
        "integers in order": wide[..., :length].astype("int32"),
        "an integer row": wide[0, 0, :length].astype("int32"),
        "whole numbers of half a word": wide[:, :, :1].astype("int16"),
    }
    tensors = {name: torch.from_numpy(array) for name, array in operands.items()}
    for a, x in tensors.items():
        for b, y in tensors.items():
            expected = (operands[a] + operands[b]).astype((x + y).numpy().dtype)
            np.testing.assert_array_equal((x + y).numpy(), expected, err_msg=f"{a}, {b}")
            if expected.ndim == 3 and (x + y).is_floating_point():
                gaps = torch.zeros(*expected.shape[:2], expected.shape[2] + 3)[..., :-3]
                np.testing.assert_array_equal(torch.add(x, y, out=gaps).numpy(), expected, err_msg=f"{a}, {b}, out")
    x = tensors["in order"].clone()
    np.testing.assert_array_equal((x.add_(tensors["a row"])).numpy(), operands["in order"] + operands["a row"])
