"""An example program. A strict type checker must find every name and infer the annotated types."""

from typing import assert_type

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, nn
from rushlight.utils.data import DataLoader, TensorDataset

x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
assert_type(x, Tensor)
assert_type(x.shape, torch.Size)
assert_type(x.shape[0], int)
assert_type(x.size(), torch.Size)
assert_type(x.size(-1), int)
assert_type(x.dtype, torch.dtype)
assert_type(x + 1, Tensor)
assert_type(2**x, Tensor)
assert_type(x[:, None], Tensor)
assert_type(x.view(2, 6), Tensor)
assert_type(x.view((2, 6)), Tensor)
assert_type(x.to(torch.float32), Tensor)
assert_type(x.to("cpu", torch.float32), Tensor)
assert_type(x.detach().add_(1), Tensor)
assert_type(torch.cat([x, x], dim=1), Tensor)
assert_type(torch.linalg.vector_norm(x), Tensor)
assert_type(torch.special.expit(x), Tensor)
assert_type(torch.einsum("ij,kj->ik", x, x), Tensor)
assert_type(torch.finfo(torch.float32).eps, float)
values, places = x.max(dim=1)
assert_type(values, Tensor)
assert_type(x.max(dim=1).indices, Tensor)
assert_type(x.numel(), int)


def start(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(self.inner(input)) * self.scale


@torch.no_grad()
def accuracy(model: Model, data: Tensor) -> float:
    return float(model(data).mean())


assert_type(accuracy(Model(), torch.zeros(2, 3)), float)

model = nn.Sequential(Model(), nn.Dropout(0.5), nn.Linear(8, 2)).apply(start)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
loader = DataLoader(TensorDataset(x.detach().float(), torch.tensor([0, 1, 0, 1])), batch_size=2, shuffle=True)
for batch, labels in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch), labels, label_smoothing=0.1)
    assert_type(loss, Tensor)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
schedule.step()
(gradient,) = torch.autograd.grad((x * x).sum(), x)
torch.testing.assert_close(gradient, 2 * x)
print(torch.cuda.is_available(), torch.get_printoptions()["precision"])
normal = torch.distributions.Normal(torch.zeros(3), 1.0).expand((2, 3))
assert_type(normal.sample((4,)), Tensor)
assert_type(normal.log_prob(normal.mean), Tensor)
assert_type(torch.distributions.kl_divergence(normal, normal), Tensor)
