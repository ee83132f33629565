"""`torch.accelerator.graphs`: `Graph`, under the name of its module in torch."""

from rushlight.accelerator import Graph

__all__ = ["Graph"]
