"""`torch.utils.ffi` built C extensions in old versions. Importing it raises an error that names the replacement."""

from rushlight._missing_names import REPLACEMENTS

raise ImportError(f"No module named 'torch.utils.ffi'\n{REPLACEMENTS['torch.utils.ffi']}", name=__name__)
