"""What was torch's port of Lua's packages; importing it says what took its place."""

from rushlight._names import INSTEAD

raise ImportError(f"No module named 'torch.legacy'\n{INSTEAD['torch.legacy']}", name=__name__)
