"""What once built extensions in C; importing it says what took its place."""

from rushlight._names import INSTEAD

raise ImportError(f"No module named 'torch.utils.ffi'\n{INSTEAD['torch.utils.ffi']}", name=__name__)
