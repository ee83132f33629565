"""The base of context managers that also decorate functions, in a module with torch's name."""

from rushlight._modes import _DecoratorContextManager

__all__ = ["_DecoratorContextManager"]
