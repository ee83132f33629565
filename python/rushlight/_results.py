"""The named tuples that operators with several results return."""

from collections import namedtuple


def make(name, fields):
    """A class for the results of operator `name`, printed as torch prints it."""
    result = namedtuple(name, fields)

    class Result(result):
        __slots__ = ()
        # torch's results are structure sequences of C, which `torch.utils._pytree.is_structseq` knows by these numbers.
        n_fields = n_sequence_fields = len(fields)
        n_unnamed_fields = 0

        def __new__(cls, values, dict=None):  # pickles of torch have a dict of no values
            return tuple.__new__(cls, values)

        def __repr__(self):
            lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
            return f"torch.return_types.{name}(\n{lines})"

        def __reduce__(self):
            return type(self), (tuple(self),)

    Result.__name__ = Result.__qualname__ = name
    Result.__module__ = "rushlight.return_types"
    Result.__doc__ = (
        f"The result of `torch.{name.replace('linalg_', 'linalg.')}`: a named tuple ``({', '.join(fields)})``."
    )
    return Result


#: For the one function with named results that is not an operator, because its second result is a tuple.
histogramdd = make("histogramdd", ["hist", "bin_edges"])
