"""Groups that go on without some of their ranks."""

import hashlib

from rushlight.distributed import _groups
from rushlight.distributed._groups import ProcessGroup, destroy_process_group, get_default_group, resolve

SHRINK_DEFAULT, SHRINK_ABORT = 0, 1


def shrink_group(ranks_to_exclude, group=None, shrink_flags=SHRINK_DEFAULT, pg_options=None):
    """Makes a group of the other ranks of a group, for example when some have died. The other ranks call it.

    The store of the default group must still be there. A smaller default group takes the place of the default group. Its ranks count
    from 0, and all other groups end.

    Args:
        ranks_to_exclude: a list of ranks of the group.
        group: the group, by default the default group.
        shrink_flags: `SHRINK_ABORT` gives up calls that are under way first.
        pg_options: as for `new_group`.

    Returns:
        the new group.

    Raises:
        TypeError: `ranks_to_exclude` is no list of numbers.
        ValueError: it is empty, has a rank twice or one that does not exist, or no rank would be left.
        RuntimeError: this process is to be left out.
        torch.distributed.DistStoreError: a rank did not come before the group's timeout.
    """
    if not isinstance(ranks_to_exclude, list):
        raise TypeError(
            f"ranks_to_exclude must be a list, but got {type(ranks_to_exclude).__name__}. "
            "Example: [1, 3, 5] to exclude ranks 1, 3, and 5."
        )
    if not ranks_to_exclude:
        raise ValueError(
            "ranks_to_exclude cannot be empty. To shrink a group, you must specify at least one rank to exclude. "
            "Example: [failed_rank_id]"
        )
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(
            f"Invalid shrink_flags value: {shrink_flags}. Must be one of: SHRINK_DEFAULT (0) or SHRINK_ABORT (1). "
            "Use SHRINK_ABORT to abort ongoing operations before shrinking."
        )
    target = resolve(group)
    _check_ranks(target, ranks_to_exclude)
    if shrink_flags == SHRINK_ABORT:
        target.abort()
    left = [rank for rank in range(target.size()) if rank not in ranks_to_exclude]
    return (
        _replace_default(target, left, pg_options) if target is get_default_group() else _part(target, left, pg_options)
    )


def _check_ranks(target, excluded):
    size = target.size()
    if size < 2:
        raise ValueError(
            f"Cannot shrink a process group with size {size}. Group must have at least 2 ranks to support shrinking."
        )
    for rank in excluded:
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise TypeError(f"ranks_to_exclude must have whole numbers, but has {rank!r}.")
        if not 0 <= rank < size:
            raise ValueError(
                f"rank {rank} of ranks_to_exclude is not in a group of {size}\n  Ranks are 0 to {size - 1}."
            )
    if len(set(excluded)) != len(excluded):
        raise ValueError(f"ranks_to_exclude must not contain duplicate entries, got {excluded}")
    if len(excluded) == size:
        raise ValueError("ranks_to_exclude has all ranks of the group, and no rank would be left")
    if target.rank() in excluded:
        raise RuntimeError(
            f"rank {target.rank()} is to be left out, and calls shrink_group\n  Only the ranks that stay call it."
        )


def _begin(target: ProcessGroup, store, ranks, rank, left, options):
    """Begins a group in the place of another one. The name tells it from others of that group."""
    name = hashlib.sha1(f"{target.group_name} {left}".encode(), usedforsecurity=False).hexdigest()
    return _groups._begin(
        store,
        ranks,
        rank,
        target._timeout,
        target._config,
        target._backend,
        name,
        target.group_desc,
        target.bound_device_id,
        options,
    )


def _replace_default(target, left, options):
    store, rank = target._root_store, left.index(target.rank())
    destroy_process_group()
    made = _begin(target, store, list(range(len(left))), rank, left, options)
    _groups._world.default = made
    return made


def _part(target, left, options):
    world = get_default_group()
    return _begin(target, world._root_store, [target._ranks[rank] for rank in left], world.rank(), left, options)
