"""The module for ``import torch`` in a program that ``python -m rushlight`` runs. It replaces itself by rushlight.

The parent of this folder is on the path of the program and of its child processes.
"""

import sys

from rushlight import _as_torch

# Tools that list the modules of the package import it under its full name.
if __name__ == "torch":
    _as_torch.install()
    sys.modules["torch"] = _as_torch.package
