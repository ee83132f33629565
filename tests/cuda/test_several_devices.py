"""Modules and optimizers whose tensors are on several devices."""

import pytest
from soft_card import RAISES, needs_soft_card, run

pytestmark = needs_soft_card


@pytest.mark.parametrize("seed", [0, 3])
def test_replicas_run_on_the_streams_of_the_caller(seed):
    run(
        """
module = torch.nn.Linear(64, 64).cuda()
model = torch.nn.DataParallel(module)
torch.cuda.synchronize(0)
first, second = torch.cuda.Stream(device=0), torch.cuda.Stream(device=1)
with torch.cuda.stream(second), torch.cuda.stream(first):
    x = torch.ones(6, 64, device="cuda")
    for _ in range(10):
        x = x * 1.01
    second.wait_stream(first)
    found = model(x)
    first.wait_stream(second)
    torch.testing.assert_close(found, module(x))
""",
        SOFTCUDA_DEVICES=2,
        SOFTCUDA_SEED=seed,
    )


def test_an_exception_names_its_replica():
    run(
        RAISES
        + """
class Failing(torch.nn.Linear):
    def forward(self, x):
        if x.device.index == 1:
            raise ValueError("of the second")
        return super().forward(x)

class Stopped(torch.nn.Linear):
    def forward(self, x):
        raise KeyboardInterrupt

x = torch.ones(4, 2, device="cuda")
failing, stopped = (torch.nn.DataParallel(kind(2, 2).cuda()) for kind in (Failing, Stopped))
error = raises(ValueError, "Caught ValueError in replica 1 on device 1.", lambda: failing(x))
assert "Original Traceback" in str(error) and "of the second" in str(error)
try:
    stopped(x)
except KeyboardInterrupt:
    pass
""",
        SOFTCUDA_DEVICES=2,
    )


def test_optimizers_step_the_parameters_of_each_device():
    """A group may have parameters on several devices, as models do whose parts are on several GPUs."""
    run(
        """
import inspect
names = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax ASGD NAdam RAdam Rprop Adafactor".split()
for name in names:
    kind = getattr(torch.optim, name)
    fused = [{"fused": True}] if "fused" in inspect.signature(kind).parameters else []
    momentum = [{"momentum": 0.9}] if name == "SGD" else []
    for options in ({}, {"foreach": False}, *fused, *momentum):
        for devices in (("cuda:0", "cuda:1"), ("cpu", "cuda:0"), ("cuda:1", "cpu", "cuda:1")):
            params = [torch.nn.Parameter(torch.ones(2, 3, device=device)) for device in devices]
            optimizer = kind(params, **options)
            for _ in range(2):
                for param in params:
                    param.grad = torch.ones_like(param)
                optimizer.step()
            for param, device in zip(params, devices, strict=True):
                assert param.device == torch.device(device) and (param != 1).all(), (name, options, devices)
                torch.testing.assert_close(param.cpu(), params[0].cpu())
""",
        SOFTCUDA_DEVICES=2,
    )


def test_copies_of_tensors_on_several_devices_are_refused():
    run(
        RAISES
        + """
x = torch.ones(2, device="cuda:0")
for other in (torch.ones(2, device="cuda:1"), torch.ones(2)):
    raises(RuntimeError, "All tensors must be on devices[0]: 0", lambda: torch.cuda.comm.broadcast_coalesced([x, other], [0, 1]))
""",
        SOFTCUDA_DEVICES=2,
    )


def test_tensors_that_have_to_be_on_one_device():
    run(
        RAISES
        + """
x, y = torch.ones(2, device="cuda:0", requires_grad=True), torch.ones(2, device="cuda:1")
sentence = (
    "attempting to assign a gradient located on device with index '1' to a tensor located on device with index '0'. "
    "Please ensure that the gradient and the tensor are on the same device"
)
raises(RuntimeError, sentence, lambda: setattr(x, "grad", y))
image, weight, net = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3), torch.nn.Conv2d(3, 4, 3)
conv2d, names = torch.nn.functional.conv2d, ("torch.cuda.FloatTensor", "torch.FloatTensor")
said = "Input type ({}) and {} type ({}) should be the same"
error = raises(RuntimeError, said.format(names[0], "weight", names[1]), lambda: net(image.cuda()))
assert "MKLDNN" not in str(error) and "Move one of them: x.to(weight.device)." in str(error), error
raises(RuntimeError, said.format(names[0], "bias", names[1]), lambda: conv2d(image.cuda(), weight.cuda(), torch.ones(4)))
host = said.format(names[1], "weight", names[0]) + " or input should be a MKLDNN tensor and weight is a dense tensor"
raises(RuntimeError, host, lambda: net.cuda()(image))
halves = said.format("torch.cuda.HalfTensor", "weight", "torch.cuda.FloatTensor")
raises(RuntimeError, halves, lambda: conv2d(image.cuda().half(), weight.cuda()))
raises(RuntimeError, "Expected all tensors to be on the same device", lambda: conv2d(image.cuda(), weight.to("cuda:1")))
""",
        SOFTCUDA_DEVICES=2,
    )
