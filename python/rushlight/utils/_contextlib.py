"""The context manager that also decorates functions, under the name of its module in torch."""

from rushlight._modes import _DecoratorContextManager

__all__ = ["_DecoratorContextManager"]
