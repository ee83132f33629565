"""Private functions that give all ranks the state of one."""

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.utils import _sync_module_states


def _states(rank):
    module = torch.nn.BatchNorm1d(2)
    with torch.no_grad():
        for number, state in enumerate(module.state_dict().values()):
            state.fill_(10 * rank + number)
    _sync_module_states(module, dist.group.WORLD, 16, 1, {"weight"})
    tensors = [torch.full((3,), float(rank), requires_grad=True), torch.full((2,), rank)]
    dist._broadcast_coalesced(dist.group.WORLD, tensors, 16, 0)
    return [state.flatten()[0].item() for state in module.state_dict().values()], [part[0].item() for part in tensors]


def test_all_ranks_get_the_states_of_one(ranks):
    (first, tensors), (second, others) = ranks(_states, 2)
    # The weight was to be left out.
    assert first == [0, 11, 12, 13, 14] and second == [10, 11, 12, 13, 14]
    assert tensors == others == [0, 0]
