"""One part of a pipeline: it computes with microbatches, and exchanges their activations and gradients with its neighbours."""

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed.fsdp import FSDPModule
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils._tensors import tensors_in

__all__ = ["PipelineStage", "build_stage"]


def __dir__() -> list[str]:
    return __all__


class PipeliningMetadataError(RuntimeError):
    """A stage got or returned other tensors than it should.

    >>> issubclass(torch.distributed.pipelining.stage.PipeliningMetadataError, RuntimeError)
    True
    """


def _as_tuple(values):
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


class PipelineStage:
    """A part of a model, which its rank computes for the schedule of a pipeline.

    The tensors that `submodule` returns are sent to the next stage, whose module gets them as its arguments. They may have any shapes,
    which must be those of the first microbatch in all others.

    Args:
        submodule: the part.
        stage_index: its number, from 0.
        num_stages: the number of parts. There are at least as many as ranks.
        device: the device on which `submodule` computes.
        input_args, output_args: a tensor, or a tuple of them, as those that a microbatch of this stage gets and returns. They need not be
            given; they are compared with those that come.
        output_grads, input_grads, dw_builder, get_mesh: accepted, without effect.
        group: the group of the ranks of the pipeline, by default the default group.

    Raises:
        ValueError: there is no such stage.
        RuntimeError: there are more ranks than stages.

    >>> dist = torch.distributed
    >>> from rushlight.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(2, 1), 0, 1, torch.device("cpu"))
    >>> schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=torch.nn.functional.mse_loss)
    >>> schedule.step(torch.ones(4, 2), target=torch.ones(4, 1)).shape
    torch.Size([4, 1])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule,
        stage_index,
        num_stages,
        device,
        input_args=None,
        output_args=None,
        output_grads=None,
        input_grads=None,
        group=None,
        dw_builder=None,
        get_mesh=None,
    ):
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = torch.device(device), group
        self.group_rank, self.group_size = dist.get_rank(group), dist.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.has_backward, self._had_backward = False, False
        self._expected = [None if given is None else _as_tuple(given) for given in (input_args, output_args)]
        # Descriptions of the tensors that come from the stage before, and of those that go to the next one.
        self._received, self._sent = None, None
        self._begin()

    def _begin(self):
        """Forgets the microbatches of the step before."""
        if self.has_backward != self._had_backward:
            self._received, self._sent, self._had_backward = None, None, self.has_backward
        self._inputs, self._outputs, self._gradients = {}, {}, {}
        self._backwards = 0

    @property
    def is_first(self):
        """Whether this is the first stage."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether this is the last stage."""
        return self.stage_index == self.num_stages - 1

    def _check(self, which, tensors):
        """Compares tensors with those that the caller has promised."""
        expected, name = self._expected[which], ("input", "output")[which]
        if expected is None:
            return
        if len(tensors) != len(expected):
            raise PipeliningMetadataError(
                f"Stage {self.stage_index} {name}: expected {len(expected)} tensors, got {len(tensors)}"
            )
        for place, (one, other) in enumerate(zip(tensors, expected)):
            for kind, own, promised in (("shape", one.shape, other.shape), ("dtype", one.dtype, other.dtype)):
                if own != promised:
                    raise PipeliningMetadataError(
                        f"Stage {self.stage_index} {name} {place}: {kind} mismatch, expected {promised}, got {own}"
                    )

    def _forward(self, number, args, kwargs):
        """Computes with a microbatch. Returns what the module returned."""
        if not self.is_first:
            args = self._inputs[number]
        self._check(0, args)
        if isinstance(self.submod, DistributedDataParallel):
            # Gradients are reduced once, when those of all microbatches are there.
            with self.submod.no_sync():
                output = self.submod(*args, **kwargs)
        else:
            output = self.submod(*args, **kwargs)
        outputs = _as_tuple(output)
        self._check(1, outputs)
        self._outputs[number] = outputs
        return output

    def _backward(self, number, loss, last):
        """Computes the gradients of a microbatch. Those of what the stage got wait to be sent."""
        outputs = self._outputs.pop(number)
        self._synchronize(outputs, last)
        if loss is not None:
            loss.backward()
        else:
            pairs = zip(outputs, self._gradients.pop(number))
            pairs = [(output, gradient) for output, gradient in pairs if output.requires_grad]
            if pairs:
                torch.autograd.backward(*map(list, zip(*pairs)))
        if not self.is_first:
            inputs = self._inputs.pop(number)
            self._gradients[number] = [
                torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                for tensor in inputs
                if tensor.requires_grad
            ]

    def _synchronize(self, outputs, last):
        """Lets the ranks that share this stage's parameters average gradients after the last microbatch alone."""
        if isinstance(self.submod, DistributedDataParallel):
            if last:
                self.submod.reducer.prepare(tensors_in(outputs))
        elif isinstance(self.submod, FSDPModule):
            self.submod.set_is_last_backward(last)
            self.submod.set_reshard_after_backward(last)
            self.submod.set_requires_gradient_sync(last)

    def _accept(self, number, tensors):
        """Takes activations of the stage before, as leaves of a graph of this one."""
        self._inputs[number] = [
            tensor.detach().requires_grad_(needed) for tensor, (_, _, needed) in zip(tensors, self._received)
        ]

    def _empty_inputs(self):
        return [torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype, _ in self._received]

    def _empty_gradients(self):
        """Memory for the gradients of what was sent; None where there are none."""
        return [
            torch.empty(shape, dtype=dtype, device=self.device) if needed else None
            for shape, dtype, needed in self._sent
        ]

    def _to_send(self, number):
        """What a microbatch gives the next stage, and whether it was not described before."""
        outputs = self._outputs[number] if self.has_backward else self._outputs.pop(number)
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise TypeError(
                    f"stage {self.stage_index} returns a {type(output).__name__}: only tensors are sent to the next stage"
                )
        # The shape and dtype, and whether gradients come back.
        described = [(tuple(one.shape), one.dtype, one.requires_grad and self.has_backward) for one in outputs]
        is_new = self._sent is None
        if not is_new and described != self._sent:
            raise PipeliningMetadataError(
                f"Stage {self.stage_index} output: expected tensors of {self._sent}, got {described}\n"
                "  All microbatches have the shapes of the first one."
            )
        self._sent = described
        return [output.detach() for output in outputs], is_new

    def scale_grads(self, grad_scale_factor):
        """Divides the gradients of the parameters by a number."""
        if grad_scale_factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """A stage of a module that `pipeline` has cut out.

    Args:
        stage_module: the module.
        stage_index: its number.
        pipe_info: what ``Pipe.info()`` returns.
        device: the device on which it computes.
        group: the group of the ranks.
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
