"""The ``jvp`` of a `Function` in the transforms of `torch.func`."""

import pytest

import rushlight as torch
from rushlight import func


def _by_norm(ctx, tangent):
    length = tangent.norm()
    return tangent / length * length * 2


def _early(ctx, tangent):
    return tangent * 2 if tangent.any() else torch.zeros_like(tangent)


@pytest.mark.parametrize("own", [_by_norm, _early])
def test_own_tangents_are_not_asked_for_zeros(own):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        jvp = staticmethod(own)

    x = torch.tensor([0.25, -0.5])
    torch.testing.assert_close(func.jvp(Doubled.apply, (x,), (torch.full((2,), 3.0),))[1], torch.full((2,), 6.0))
    torch.testing.assert_close(func.jacfwd(Doubled.apply)(x), 2 * torch.eye(2))
