"""In which order ranks compute with microbatches, forwards and backwards, and exchange tensors in between."""

from typing import NamedTuple

import rushlight as torch
from rushlight import distributed as dist

from .microbatch import merge_chunks, split_args_kwargs_into_chunks

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "get_schedule_class",
]


def __dir__() -> list[str]:
    return __all__


class _Action(NamedTuple):
    """A microbatch that a stage computes forwards or backwards, or that its rank sends or receives for that."""

    kind: str
    stage: int
    number: int


def _programs(orders, rank_of):
    """What each rank does, with messages between the computations of all ranks.

    The messages of two ranks are in one order on both, that in which the computations before them can end. So no rank waits for a message
    that the other one sends only after it has received one from this rank.

    Args:
        orders: for each rank the computations, in their order.
        rank_of: the rank of each stage.
    """
    programs: list[list[_Action]] = [[] for _ in orders]
    left, done = [list(reversed(order)) for order in orders], set()
    last = len(rank_of) - 1

    def needs(action):
        if action.kind == "backward":
            yield _Action("forward", action.stage, action.number)
            if action.stage < last:
                yield _Action("backward", action.stage + 1, action.number)
        elif action.stage > 0:
            yield _Action("forward", action.stage - 1, action.number)

    while any(left):
        ready = [rank for rank, queue in enumerate(left) if queue and all(one in done for one in needs(queue[-1]))]
        if not ready:
            raise AssertionError("Malformed compute schedule, can't schedule sends/recvs")
        for rank in ready:
            action = left[rank].pop()
            programs[rank].append(action)
            done.add(action)
            step = 1 if action.kind == "forward" else -1
            other = action.stage + step
            if 0 <= other <= last:
                programs[rank].append(_Action(f"send {action.kind}", action.stage, action.number))
                if rank_of[other] != rank:
                    programs[rank_of[other]].append(_Action(f"receive {action.kind}", other, action.number))
    return programs


class _Schedule:
    """One step of a pipeline: the computations and messages of this rank."""

    def __init__(
        self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
    ):
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._specs, self._output_merge_spec = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec
        first = stages[0]
        self._group, self._rank, self._ranks = first.group, first.group_rank, first.group_size
        self._num_stages = first.num_stages
        self._rank_of = [stage % self._ranks for stage in range(self._num_stages)]
        self._has_backward = loss_fn is not None
        for stage in stages:
            stage.has_backward = self._has_backward
        self._plans: dict[bool, list[_Action]] = {}

    def _order(self, rank):
        """The computations of a rank."""
        raise NotImplementedError

    def _program(self):
        """What this rank does in a step."""
        if self._has_backward not in self._plans:
            orders = [self._order(rank) for rank in range(self._ranks)]
            if not self._has_backward:
                orders = [[action for action in order if action.kind == "forward"] for order in orders]
            self._plans[self._has_backward] = _programs(orders, self._rank_of)[self._rank]
        return self._plans[self._has_backward]

    def _last(self):
        """The last stage of the pipeline, if this rank has it."""
        return self._stages.get(self._num_stages - 1)

    def step(self, *args, target=None, losses=None, return_outputs=True, loss_kwargs=None, **kwargs):
        """Computes with one batch, which is cut into microbatches, and adds up gradients.

        Args:
            args: the arguments of the model, on the rank of the first stage.
            target: what the loss function gets beside the model's result, on the rank of the last stage.
            losses: a list for the losses of the microbatches.
            return_outputs: whether the rank of the last stage gets the results.
            loss_kwargs: more arguments of the loss function.
            kwargs: keyword arguments of this rank's modules, which are cut as well.

        Returns:
            the result of the model for the whole batch on the rank of the last stage, and None on the others.

        Raises:
            RuntimeError: gradients are disabled; or a stage returns tensors of other shapes than before.
        """
        if self._has_backward and not torch.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under "
                "torch.no_grad() context. Please call eval() instead."
            )
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        if self._has_backward and self._last() is not None and target is None:
            raise TypeError("step() needs a target for the loss function on the rank of the last stage")
        outputs, found = self._run(args, kwargs, target, loss_kwargs or {})
        if losses is not None and self._last() is not None:
            losses[:] = found
        if self._has_backward and self.scale_grads:
            for stage in self._stages.values():
                stage.scale_grads(self._n_microbatches)
        if self._last() is None or not return_outputs:
            return None
        return merge_chunks(outputs, self._output_merge_spec)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """Computes with one batch, without gradients. The arguments are those of `step`."""
        before, self._has_backward = self._has_backward, False
        for stage in self._stages.values():
            stage.has_backward = False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before
            for stage in self._stages.values():
                stage.has_backward = before

    def _split(self, args, kwargs):
        """The arguments of each microbatch."""
        if not args and not kwargs:
            return [()] * self._n_microbatches, [{}] * self._n_microbatches
        split = split_args_kwargs_into_chunks(args, kwargs, self._n_microbatches, *self._specs)
        if len(split[0]) != self._n_microbatches:
            raise ValueError(f"Expecting {self._n_microbatches} arg_mbs but got {len(split[0])}")
        return split

    def _run(self, args, kwargs, target, loss_kwargs):
        arguments, names = self._split(args, kwargs)
        targets = None if target is None else torch.tensor_split(target, self._n_microbatches)
        losses, outputs = [None] * self._n_microbatches, [None] * self._n_microbatches
        sends, receives = [], {}
        for stage in self._stages.values():
            stage._begin()
        for action in self._program():
            kind, number, stage = action.kind, action.number, self._stages[action.stage]
            if kind == "forward":
                if not stage.is_first:
                    self._finish(stage, number, receives.pop((action.stage, number, kind), None), forward=True)
                output = stage._forward(number, arguments[number], names[number])
                if stage.is_last:
                    outputs[number] = output
                    if self._loss_fn is not None and targets is not None:
                        losses[number] = self._loss_fn(output, targets[number], **loss_kwargs)
            elif kind == "backward":
                if not stage.is_last:
                    self._finish(stage, number, receives.pop((action.stage, number, kind), None), forward=False)
                stage._backwards += 1
                stage._backward(
                    number, losses[number] if stage.is_last else None, stage._backwards == self._n_microbatches
                )
            elif kind.startswith("send"):
                sends += self._send(stage, number, forward=kind == "send forward")
            else:
                what = kind.partition(" ")[2]
                receives[action.stage, number, what] = self._receive(stage, number, forward=what == "forward")
        for work, _ in sends:
            work.wait()
        return outputs, [loss for loss in losses if loss is not None]

    def _tag(self, stage, number, forward):
        """A number of a message between a stage and the one before, for backends that have them."""
        return 2 * (stage * self._n_microbatches + number) + forward

    def _send(self, stage, number, forward):
        """Begins to send what a stage has computed. Returns what is under way."""
        other = stage.stage_index + (1 if forward else -1)
        near = self._stages.get(other)
        if forward:
            tensors, is_new = stage._to_send(number)
            if near is not None:
                near._received = stage._sent
                near._accept(number, tensors)
                return []
            if is_new:
                dist.send_object_list([stage._sent], group=self._group, group_dst=self._rank_of[other])
        else:
            tensors = stage._gradients.pop(number)
            if near is not None:
                gradients = iter(tensors)
                near._gradients[number] = [next(gradients) if needed else None for _, _, needed in near._sent]
                return []
        tag = self._tag(other if forward else stage.stage_index, number, forward)
        rank = self._rank_of[other]
        return [(dist.isend(tensor, group=self._group, tag=tag, group_dst=rank), tensor) for tensor in tensors]

    def _receive(self, stage, number, forward):
        """Begins to receive what a stage needs. Returns the memory, and what is under way."""
        other = stage.stage_index - 1 if forward else stage.stage_index + 1
        rank = self._rank_of[other]
        if forward and stage._received is None:
            described = [None]
            dist.recv_object_list(described, group=self._group, group_src=rank)
            (stage._received,) = described
        tensors = stage._empty_inputs() if forward else stage._empty_gradients()
        tag = self._tag(stage.stage_index if forward else other, number, forward)
        works = [
            dist.irecv(tensor, group=self._group, tag=tag, group_src=rank) for tensor in tensors if tensor is not None
        ]
        return tensors, works

    def _finish(self, stage, number, received, forward):
        """Waits for what a stage needs, unless it came from a stage of this rank."""
        if received is None:
            return
        tensors, works = received
        for work in works:
            work.wait()
        if forward:
            stage._accept(number, tensors)
        else:
            stage._gradients[number] = tensors


class PipelineScheduleSingle(_Schedule):
    """The base class of schedules with one stage on each rank. `step` computes with a batch.

    Args:
        stage: the stage of this rank.
        n_microbatches: into how many parts a batch is cut.
        loss_fn: a function of the result and the target of a microbatch, on all ranks; None computes without gradients.
        args_chunk_spec, kwargs_chunk_spec: how arguments are cut, by default along the first dimension.
        output_merge_spec: how results are joined, likewise.
        scale_grads: whether gradients are divided by the number of microbatches, as for a loss that is a mean.

    Raises:
        ValueError: `n_microbatches` does not fit the schedule.
        RuntimeError: the number of stages is not that of the ranks.
    """

    def __init__(
        self,
        stage,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
    ):
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self._stage = stage
        if self._num_stages != self._ranks:
            raise RuntimeError(
                f"{type(self).__name__} has one stage on each rank: {self._num_stages} stages, {self._ranks} ranks\n"
                "  Use ScheduleInterleaved1F1B for several stages on a rank."
            )


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forwards, and then all backwards. The arguments are those of `PipelineScheduleSingle`.

    >>> torch.distributed.pipelining.ScheduleGPipe.__name__
    'ScheduleGPipe'
    """

    def _order(self, rank):
        return [
            _Action(kind, rank, number) for kind in ("forward", "backward") for number in range(self._n_microbatches)
        ]


class Schedule1F1B(PipelineScheduleSingle):
    """A microbatch backwards after each forwards, as soon as there are any. A stage keeps fewer activations than with `ScheduleGPipe`.

    There are at least as many microbatches as stages. The arguments are those of `PipelineScheduleSingle`.

    >>> torch.distributed.pipelining.Schedule1F1B.__name__
    'Schedule1F1B'
    """

    def __init__(self, stage, n_microbatches, *args, **kwargs):
        super().__init__(stage, n_microbatches, *args, **kwargs)
        if n_microbatches < self._num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than "
                f"or equal to the number of stages ({self._num_stages})."
            )

    def _order(self, rank):
        count = self._n_microbatches
        return _alternate(
            [_Action("forward", rank, number) for number in range(count)],
            [_Action("backward", rank, number) for number in range(count)],
            min(count, self._num_stages - rank),
        )


def _alternate(forwards, backwards, first):
    """The first computations forwards, then one backwards and one forwards by turns, and what is left backwards."""
    order = forwards[:first]
    for place, action in enumerate(backwards):
        order.append(action)
        order += forwards[first + place : first + place + 1]
    return order


class PipelineScheduleMulti(_Schedule):
    """The base class of schedules with several stages on each rank: rank r of R has stages r, r + R and so on.

    Args:
        stages: the stages of this rank.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as those of `PipelineScheduleSingle`.
        backward_requires_autograd, defer_pp_recv: accepted, without effect.

    Raises:
        ValueError: the stages are not those of this rank; `n_microbatches` does not fit the schedule.
    """

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
        backward_requires_autograd=True,
        defer_pp_recv=False,
    ):
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        expected = [stage for stage, rank in enumerate(self._rank_of) if rank == self._rank]
        if sorted(self._stages) != expected or self._num_stages % self._ranks:
            raise ValueError(
                f"rank {self._rank} has stages {sorted(self._stages)} of {self._num_stages}\n"
                f"  Rank r of {self._ranks} has stages r, r + {self._ranks} and so on, the same number on all ranks."
            )

    def _stages_of(self, rank):
        return range(rank, self._num_stages, self._ranks)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches forwards, stage by stage, and then backwards. The arguments are those of `PipelineScheduleMulti`, without the first two specs.

    >>> torch.distributed.pipelining.ScheduleLoopedBFS.__name__
    'ScheduleLoopedBFS'
    """

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        output_merge_spec=None,
        scale_grads=True,
        backward_requires_autograd=True,
        defer_pp_recv=False,
    ):
        super().__init__(stages, n_microbatches, loss_fn, output_merge_spec=output_merge_spec, scale_grads=scale_grads)

    def _order(self, rank):
        stages, numbers = self._stages_of(rank), range(self._n_microbatches)
        forwards = [_Action("forward", stage, number) for stage in stages for number in numbers]
        backwards = [_Action("backward", stage, number) for stage in reversed(stages) for number in reversed(numbers)]
        return forwards + backwards


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """As `Schedule1F1B`, with several stages on each rank, so that ranks wait less for each other.

    The microbatches are taken in ``max(1, n_microbatches // ranks)`` rounds of one size, and their number is a multiple of the
    number of rounds. The arguments are those of `PipelineScheduleMulti`.

    >>> torch.distributed.pipelining.ScheduleInterleaved1F1B.__name__
    'ScheduleInterleaved1F1B'
    """

    def __init__(self, stages, n_microbatches, *args, **kwargs):
        super().__init__(stages, n_microbatches, *args, **kwargs)
        rounds = max(1, n_microbatches // self._ranks)
        if n_microbatches % rounds:
            raise ValueError(
                "Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds "
                f"({rounds}), but got {n_microbatches}."
            )
        self._round = n_microbatches // rounds

    def _order(self, rank):
        stages, size = self._stages_of(rank), self._round

        def turns(kind, stages):
            """Each round of microbatches, on one stage after the other."""
            return [
                _Action(kind, stage, number)
                for first in range(0, self._n_microbatches, size)
                for stage in stages
                for number in range(first, first + size)
            ]

        forwards, backwards = turns("forward", stages), turns("backward", stages[::-1])
        # One more than the computations under way when the first gradient of this rank arrives.
        first = (len(stages) - 1) * size + 2 * (self._ranks - 1 - rank) + 1
        return _alternate(forwards, backwards, min(first, len(forwards)))


def get_schedule_class(schedule_name):
    """The schedule of a name, in which small and capital letters are the same.

    Raises:
        ValueError: there is none.

    >>> torch.distributed.pipelining.schedules.get_schedule_class("gpipe").__name__
    'ScheduleGPipe'
    """
    known = {
        "1F1B": Schedule1F1B,
        "Interleaved1F1B": ScheduleInterleaved1F1B,
        "GPipe": ScheduleGPipe,
        "LoopedBFS": ScheduleLoopedBFS,
        "PipelineScheduleSingle": PipelineScheduleSingle,
        "PipelineScheduleMulti": PipelineScheduleMulti,
    }
    folded = {name.lower(): schedule for name, schedule in known.items()}
    if schedule_name.lower() not in folded:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}")
    return folded[schedule_name.lower()]
