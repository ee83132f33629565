"""`torch.legacy` was the port of Lua's packages. Importing it raises an error that names the replacement."""

from rushlight._missing_names import REPLACEMENTS

raise ImportError(f"No module named 'torch.legacy'\n{REPLACEMENTS['torch.legacy']}", name=__name__)
