"""PER: performance requirements that need no clock."""

import rushlight as torch


def test_per_7_broadcasting_takes_no_memory(grows):
    """An expanded operand needs no additional memory, forward or backward. Explicit tiles need the whole size."""
    stretched = torch.ones(1000).expand(10**6, 1000)
    assert stretched.untyped_storage().nbytes() == 4000
    table = 2000 * 2000 * 4
    prepared = "a, b = torch.ones(2000, 1, requires_grad=True), torch.ones(1, 2000, requires_grad=True)"
    assert 0.9 < grows(prepared, "c = a + b") / table < 1.2
    assert grows(prepared + "; c = a + b; g = torch.ones(2000, 2000)", "c.backward(g)") / table < 0.2
    assert grows(prepared, "c = a.repeat(1, 2000) + b.repeat(2000, 1)") / table > 2.5
