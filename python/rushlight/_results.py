"""The named tuples that operators with several results return."""

from collections import namedtuple


def make(name, fields):
    """A class for the results of operator `name`, printed as torch prints it."""
    result = namedtuple(name, fields)

    class Result(result):
        __slots__ = ()

        def __new__(cls, values):
            return tuple.__new__(cls, values)

        def __repr__(self):
            lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
            return f"torch.return_types.{name}(\n{lines})"

        def __reduce__(self):
            return type(self), (tuple(self),)

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = "rushlight.return_types"
    Result.__doc__ = (
        f"What `torch.{name.replace('linalg_', 'linalg.')}` returns: ``{', '.join(fields)}``, by name and by place."
    )
    return Result


#: Of the one function with named results that is no row, since the second is a tuple.
histogramdd = make("histogramdd", ["hist", "bin_edges"])
