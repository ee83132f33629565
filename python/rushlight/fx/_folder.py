"""A graph module as a folder with Python code and weights."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from .graph_module import GraphModule

_HEAD = """
import torch
from math import inf
from math import nan
NoneType = type(None)
import torch
from torch import device
import torch.fx._pytree as fx_pytree
import torch.utils._pytree as pytree

from torch.nn import *
"""

# Modules whose printed form is the call that makes them.
_PRINTED = (
    torch.nn.Linear,
    torch.nn.Conv1d,
    torch.nn.Conv2d,
    torch.nn.Conv3d,
    torch.nn.BatchNorm1d,
    torch.nn.BatchNorm2d,
    torch.nn.BatchNorm3d,
)


def write(module: GraphModule, folder: Path, class_name: str) -> None:
    """Writes ``module.py``, the weights, and the modules whose text does not say how to make them."""
    from .graph_module import _import_block, _indented

    folder.mkdir(parents=True, exist_ok=True)
    torch.save(module.state_dict(), folder / "state_dict.pt")
    lines = ["super().__init__()"]
    saved = []
    for name, child in module.named_children():
        if isinstance(child, _PRINTED):
            made = repr(child)
        else:
            saved.append(name)
            file = folder / f"{name}.pt"
            torch.save(child, file)
            made = f"torch.load(r'{file}', weights_only=False)) # {_on_one_line(child)}"
            lines.append(f"setattr(self, {name!r}, {made}")
            continue
        lines.append(f"setattr(self, {name!r}, {made})")
    for name, value in module._buffers.items():
        if value is not None:
            lines.append(f"self.register_buffer({name!r}, torch.empty({list(value.shape)}, dtype={value.dtype}))")
    for name, value in module._parameters.items():
        if value is not None:
            lines.append(
                f"setattr(self, {name!r}, torch.nn.Parameter(torch.empty({list(value.shape)}, dtype={value.dtype})))"
            )
    lines.append(f"self.load_state_dict(torch.load(r'{folder / 'state_dict.pt'}'))")
    made = "\n".join(f"        {line}" for line in lines)
    imports = "".join(f"{line}\n" for line in _import_block(module.recompile().globals).splitlines())
    code = _indented(module.code)
    text = f"{_HEAD}{imports}class {class_name}(torch.nn.Module):\n    def __init__(self):\n{made}\n{code}\n"
    (folder / "module.py").write_text(text)
    (folder / "__init__.py").write_text("from .module import *")
    if saved:
        warn(f"Was not able to save the following children modules as reprs -saved as pickled files instead: {saved}")


def _on_one_line(module: Module) -> str:
    return repr(module).replace("\r", " ").replace("\n", " ")
