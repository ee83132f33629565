"""What stands in a package for the objects of a mocked module. This file is copied into packages, so that it imports nothing."""


class MockedObject:
    """Refuses every use: the package has only the name of the object."""

    def __init__(self, name: str, _suppress_err: bool):
        self.__dict__["_name"] = name  # `__setattr__` refuses

    def __repr__(self):
        return f"MockedObject({self._name})"


def _refusal(method):
    def refused(self, *args, **kwargs):
        raise NotImplementedError(
            f"Object '{self._name}' was mocked out during packaging but it is being used in {method}"
        )

    refused.__name__ = method
    return refused


# Python finds the methods of operators in the class, where `__getattr__` is not asked.
_METHODS = """
    abs add aenter aexit aiter and anext await bool bytes call ceil complex contains copy deepcopy delattr delete delitem dir
    divmod enter eq exit float floor floordiv format fspath ge get getattr getitem getnewargs getnewargs_ex getstate gt hash
    iadd iand ifloordiv ilshift imatmul imod imul index instancecheck int invert ior ipow irshift isub iter itruediv ixor le
    len length_hint lshift lt matmul missing mod mro_entries mul ne neg next or pos pow radd rand rdivmod reduce reduce_ex
    reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor set setattr setitem
    setstate sizeof sub subclasscheck truediv trunc xor
"""
for _method in _METHODS.split():
    setattr(MockedObject, f"__{_method}__", _refusal(f"__{_method}__"))
