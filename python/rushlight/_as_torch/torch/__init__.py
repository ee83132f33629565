"""What ``import torch`` finds in a program run by ``python -m rushlight``: rushlight under torch's name.

This folder's parent is on the path of the program and of every process it starts.
"""

import sys

from rushlight import _as_torch

_as_torch.install()
sys.modules["torch"] = _as_torch.package
