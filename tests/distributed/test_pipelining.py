"""Pipelines: schedules compute what one process does, with any number of stages and microbatches; models cut by `pipeline`."""

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import pipelining
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.pipelining import PipelineStage, SplitPoint, pipe_split, pipeline, schedules
from rushlight.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    _Replicate,
    merge_chunks,
    split_args_kwargs_into_chunks,
    sum_reducer,
)
from rushlight.distributed.pipelining.schedules import _Action, _programs
from rushlight.distributed.pipelining.stage import PipeliningMetadataError
from rushlight.nn.functional import mse_loss
from rushlight.nn.parallel import DistributedDataParallel

SAMPLES, WIDTH = 8, 4


class _Layer(torch.nn.Module):
    """Takes and returns two tensors, one of which has no gradient. The last layer returns one."""

    def __init__(self, number, count):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.is_last = number == count - 1

    def forward(self, x, places=None, scale=1.0):
        places = torch.arange(WIDTH).expand(len(x), WIDTH) if places is None else places
        y = torch.tanh(self.linear(x)) * scale + x.gather(1, places)
        return y if self.is_last else (y, places.flip(1))


def _layers(count):
    torch.manual_seed(0)
    return [_Layer(number, count) for number in range(count)]


def _batch():
    torch.manual_seed(1)
    return torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH)


def _alone(count, scale=1.0):
    """What one process computes: the result, the loss, and the gradients of each layer."""
    layers, (x, target) = _layers(count), _batch()
    values = (x,)
    for layer in layers:
        values = layer(*values, scale=scale)
    loss = mse_loss(values, target)
    loss.backward()
    return values.detach(), loss.item(), [[p.grad for p in layer.parameters()] for layer in layers]


def _near(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def _train(rank, size, name, per_rank, microbatches):
    count = size * per_rank
    layers, (x, target) = _layers(count), _batch()
    cpu = torch.device("cpu")
    stages = [PipelineStage(layers[number], number, count, cpu) for number in range(rank, count, size)]
    schedule = schedules.get_schedule_class(name)(stages if per_rank > 1 else stages[0], microbatches, mse_loss)
    expected, loss, gradients = _alone(count)
    for turn in range(3):
        losses = []
        if turn == 1:
            with torch.no_grad():
                found = schedule.eval(*((x,) if rank == 0 else ()), target=target, losses=losses)
        else:
            found = schedule.step(*((x,) if rank == 0 else ()), target=target, losses=losses)
        if rank == size - 1:
            _near(found.detach(), expected)
            assert len(losses) == microbatches and abs(sum(losses).item() / microbatches - loss) < 1e-6
        else:
            assert found is None and losses == []
        for stage in stages:
            for parameter, gradient in zip(stage.submod.parameters(), gradients[stage.stage_index]):
                if turn != 1:
                    _near(parameter.grad, gradient)
                else:
                    assert parameter.grad is None
                parameter.grad = None


@pytest.mark.parametrize(
    ("name", "size", "per_rank", "microbatches"),
    [
        ("GPipe", 1, 1, 2),
        ("GPipe", 3, 1, 4),
        ("1F1B", 2, 1, 4),
        ("1F1B", 3, 1, 8),
        ("LoopedBFS", 2, 2, 4),
        ("Interleaved1F1B", 1, 2, 2),
        ("Interleaved1F1B", 2, 2, 4),
        ("Interleaved1F1B", 2, 3, 8),
    ],
)
def test_schedules(ranks, name, size, per_rank, microbatches):
    ranks(_train, size, size, name, per_rank, microbatches)


@pytest.mark.parametrize("ranks_", [1, 2, 3, 4])
@pytest.mark.parametrize("per_rank", [1, 2, 3])
def test_messages_are_in_one_order_on_both_ranks(ranks_, per_rank):
    """For every pair of ranks, so that backends without tags and with waits in their order do not hang."""
    count, rank_of = ranks_ * per_rank, [stage % ranks_ for stage in range(ranks_ * per_rank)]

    class Fake:
        group, group_size, num_stages = None, ranks_, count

        def __init__(self, number):
            self.stage_index, self.group_rank = number, 0

    stages = [Fake(number) for number in range(0, count, ranks_)]
    for name in ("GPipe", "1F1B") if per_rank == 1 else ("LoopedBFS", "Interleaved1F1B"):
        made = schedules.get_schedule_class(name)(stages if per_rank > 1 else stages[0], 2 * ranks_)
        programs = _programs([made._order(rank) for rank in range(ranks_)], rank_of)
        messages = [[] for _ in range(ranks_)]
        for rank, program in enumerate(programs):
            computed = set()
            for kind, stage, number in program:
                if kind in ("forward", "backward"):
                    computed.add((kind, stage, number))
                    continue
                what, direction = kind.split()
                step = 1 if direction == "forward" else -1
                source = stage if what == "send" else stage - step
                pair = (rank_of[source], rank_of[source + step])
                if what == "send":
                    assert (direction, stage, number) in computed
                else:
                    assert (direction, stage, number) not in computed
                if pair[0] != pair[1]:
                    messages[rank].append((frozenset(pair), direction, source, number))
            assert len(computed) == 2 * per_rank * 2 * ranks_
        for one in range(ranks_):
            for other in range(one):
                both = [[m for m in messages[rank] if m[0] == frozenset((one, other))] for rank in (one, other)]
                assert both[0] == both[1]


def test_an_order_that_cannot_be():
    with pytest.raises(AssertionError, match="Malformed compute schedule, can't schedule sends/recvs"):
        _programs([[_Action("backward", 0, 0), _Action("forward", 0, 0)]], [0])


def _options(rank):
    layers, (x, target) = _layers(2), _batch()
    stage = PipelineStage(layers[rank], rank, 2, "cpu")
    schedule = schedules.ScheduleGPipe(
        stage,
        2,
        lambda output, target, factor: mse_loss(output, target) * factor,
        args_chunk_spec=(TensorChunkSpec(0),) if rank == 0 else None,
        kwargs_chunk_spec={"scale": _Replicate()},
        scale_grads=False,
    )
    arguments = (x,) if rank == 0 else ()
    found = schedule.step(*arguments, target=target, scale=0.5, loss_kwargs={"factor": 3.0}, return_outputs=False)
    assert found is None
    _, _, gradients = _alone(2, 0.5)
    for parameter, gradient in zip(layers[rank].parameters(), gradients[rank]):
        _near(parameter.grad, 6 * gradient)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"Please call eval\(\) instead."):
        schedule.step(*arguments, target=target, scale=0.5)
    dist.barrier()
    if rank == 1:
        with pytest.raises(TypeError, match="needs a target"):
            schedule.step()


def test_options(ranks):
    ranks(_options, 2)


def _refused(rank):
    layers = _layers(2)
    with pytest.raises(ValueError, match="Stage index 2 is out of range of 2"):
        PipelineStage(layers[0], 2, 2, "cpu")
    with pytest.raises(RuntimeError, match="Pipeline group size 2 cannot be larger than number of stages 1"):
        PipelineStage(layers[0], 0, 1, "cpu")
    stage = PipelineStage(layers[rank], rank, 2, "cpu")
    with pytest.raises(ValueError, match=r"Number of microbatches \(1\) must be greater than or equal to the number"):
        schedules.Schedule1F1B(stage, 1)
    with pytest.raises(ValueError, match="has stages"):
        schedules.ScheduleLoopedBFS([PipelineStage(layers[0], 1 - rank, 4, "cpu")], 2)
    with pytest.raises(ValueError, match="a multiple of the number of rounds"):
        own = [PipelineStage(layers[0], number, 4, "cpu") for number in (rank, rank + 2)]
        schedules.ScheduleInterleaved1F1B(own, 5)
    with pytest.raises(ValueError, match="Unknown schedule name 'zz'"):
        schedules.get_schedule_class("zz")
    alone = PipelineStage(
        torch.nn.Identity(), 0, 1, "cpu", torch.ones(2), torch.ones(2, dtype=torch.int64), group=_one()
    )
    with pytest.raises(PipeliningMetadataError, match="Stage 0 input 0: shape mismatch, expected"):
        schedules.ScheduleGPipe(alone, 1).step(torch.ones(3))
    with pytest.raises(PipeliningMetadataError, match="Stage 0 output 0: dtype mismatch, expected"):
        schedules.ScheduleGPipe(alone, 1).step(torch.ones(2))


def _one():
    groups = [dist.new_group([0]), dist.new_group([1])]
    return groups[dist.get_rank()]


def test_refused(ranks):
    ranks(_refused, 2)


def _other_shapes(rank):
    stage = PipelineStage(torch.nn.Identity(), rank, 2, "cpu")
    schedule = schedules.ScheduleGPipe(stage, 1)
    for length, fails in ((2, False), (3, True)):
        if rank == 0 and fails:
            with pytest.raises(PipeliningMetadataError, match="Stage 0 output: expected tensors of"):
                schedule.step(torch.ones(length))
        elif rank == 0:
            schedule.step(torch.ones(length))
        elif not fails:
            assert schedule.step().shape == (length,)


def test_a_batch_of_another_shape(ranks):
    ranks(_other_shapes, 2)


def _with_data(rank, kind):
    """Two pipelines of two stages, whose stages average gradients."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    place, layers, (x, target) = mesh["pp"].get_local_rank(), _layers(2), _batch()
    layer = layers[place]
    if kind == "ddp":
        layer = DistributedDataParallel(layer, process_group=mesh["dp"].get_group())
    else:
        fully_shard(layer, mesh=mesh["dp"])
    stage = PipelineStage(layer, place, 2, "cpu", group=mesh["pp"].get_group())
    schedule = schedules.Schedule1F1B(stage, 2, mse_loss)
    half = slice(4 * mesh["dp"].get_local_rank(), 4 * mesh["dp"].get_local_rank() + 4)
    for _ in range(2):
        schedule.step(*((x[half],) if place == 0 else ()), target=target[half])
        for parameter, gradient in zip(layers[place].parameters(), _alone(2)[2][place]):
            _near(parameter.grad if kind == "ddp" else parameter.grad.full_tensor(), gradient)
            parameter.grad = None


@pytest.mark.parametrize("kind", ["ddp", "fully_shard"])
def test_stages_on_several_ranks(ranks, kind):
    ranks(_with_data, 4, kind)


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, WIDTH)
        self.layers = torch.nn.ModuleDict({str(n): torch.nn.Linear(WIDTH, WIDTH) for n in range(3)})
        self.scale = torch.nn.Parameter(torch.full((WIDTH,), 2.0))

    def forward(self, tokens, mask, half=None):
        first = x = self.embedding(tokens)
        for layer in self.layers.values():
            x = torch.relu(layer(x)) * self.scale
        x = (x + first) * mask
        return x if half is None else x * half


def test_a_model_is_cut():
    """Values that are needed later pass through the parts in between; parameters have their names."""
    torch.manual_seed(0)
    model = _Model()
    tokens, mask = torch.arange(6), torch.rand(6, WIDTH)
    spec = {"embedding": SplitPoint.END, "layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.BEGINNING}
    pipe = pipeline(model, (tokens, mask), split_spec=spec)
    assert pipe.num_stages == 4
    assert torch.equal(pipe(tokens, mask), model(tokens, mask))
    named = {}
    for index in range(4):
        named.update(pipe.get_stage_module(index).named_parameters())
    assert all(named[name] is parameter for name, parameter in model.named_parameters())
    assert set(dict(pipe.get_stage_module(1).named_parameters())) == {"layers.0.weight", "layers.0.bias", "scale"}
    with pytest.raises(ValueError, match="Invalid stage index 4!"):
        pipe.get_stage_module(4)
    with pytest.raises(AttributeError, match="zz"):
        pipeline(model, (tokens, mask), split_spec={"layers.zz": SplitPoint.END})
    with pytest.raises(ValueError, match="Cannot specify both `split_spec` and `split_policy`"):
        pipeline(model, (tokens, mask), split_spec=spec, split_policy=lambda module: module)
    double = pipeline(model, (tokens, mask), {"half": mask}, split_spec=spec)
    assert torch.equal(double(tokens, mask, mask), model(tokens, mask, mask))


class _Marked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.first(x)
        pipe_split()
        return self.second(torch.relu(x))


def _cut(rank):
    torch.manual_seed(0)
    model, (x, target) = _Marked(), _batch()
    pipe = pipeline(model, (x,))
    schedule = schedules.ScheduleGPipe(pipe.build_stage(rank, torch.device("cpu")), 4, mse_loss)
    found = schedule.step(*((x,) if rank == 0 else ()), target=target)
    own = [(name, parameter.grad) for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert [name for name, _ in own] == [f"{('first', 'second')[rank]}.{kind}" for kind in ("weight", "bias")]
    model.zero_grad()
    expected = model(x)
    mse_loss(expected, target).backward()
    for name, gradient in own:
        _near(gradient, model.get_parameter(name).grad)
    if rank == 1:
        _near(found, expected)


def test_a_model_with_marks(ranks):
    ranks(_cut, 2)


def _split_by_policy(module):
    for node in module.graph.nodes:
        if node.target == "second":
            with module.graph.inserting_before(node):
                module.graph.call_function(pipe_split)
    return module


def test_a_policy():
    model = torch.nn.Sequential()
    model.first, model.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()
    pipe = pipelining.pipeline(model, (torch.ones(1, WIDTH),), split_policy=_split_by_policy)
    assert pipe.num_stages == 2 and torch.equal(pipe(torch.ones(2, WIDTH)), model(torch.ones(2, WIDTH)))


def test_microbatches():
    x = torch.arange(10).view(5, 2)
    args, kwargs = split_args_kwargs_into_chunks((x, 7), {"deep": {"y": x}}, 2)
    assert [one[0].shape[0] for one in args] == [3, 2] and [one[1] for one in args] == [7, 7]
    assert [one["deep"]["y"].shape[0] for one in kwargs] == [3, 2]
    args, _ = split_args_kwargs_into_chunks((x, x), None, 2, (TensorChunkSpec(1), _Replicate()))
    assert [tuple(one[0].shape) for one in args] == [(5, 1), (5, 1)] and args[1][1] is x
    assert len(split_args_kwargs_into_chunks((x,), None, 9)[0]) == 5
    with pytest.raises(ValueError, match=r"Unsupported chunk spec: TensorChunkSpec\(0\) and value: 7 combination."):
        split_args_kwargs_into_chunks((7,), None, 2, (TensorChunkSpec(0),))
    merged = merge_chunks(
        [(x, 3, torch.tensor(1.0)), (x, 3, torch.tensor(2.0))], (TensorChunkSpec(1), _Replicate(), sum_reducer)
    )
    assert merged[0].shape == (5, 4) and merged[1] == 3 and merged[2] == 3
    with pytest.raises(AssertionError, match="Expected 3, got 4"):
        merge_chunks([3, 4], None)
    with pytest.raises(ValueError, match="did not match chunk spec"):
        merge_chunks([(x,), x], None)
