"""What pickles name: functions that build objects anew. Names and arguments are torch's, files depend on them."""


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from rushlight.nn.parameter import Parameter

    # Hooks do not travel: the dictionary in a file is always empty.
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    parameter.__dict__.update(state)
    return parameter


def _reduce_tensor(tensor):
    """How pickle and copy see a tensor: its storage, and how it is shown."""
    from collections import OrderedDict

    from rushlight import Tensor
    from rushlight._checkpoint import rebuild
    from rushlight._checkpoint.storages import TypedStorage

    if tensor.requires_grad and not tensor.is_leaf:
        tensor = tensor.detach().requires_grad_()
    shape = tuple(tensor.shape), tensor.stride()
    if tensor.is_meta:
        plain = rebuild._rebuild_meta_tensor_no_storage, (tensor.dtype, *shape, tensor.requires_grad)
    else:
        storage = TypedStorage(tensor.untyped_storage(), tensor.dtype)
        place = storage, tensor.storage_offset(), *shape
        plain = rebuild._rebuild_tensor_v2, (*place, tensor.requires_grad, OrderedDict())
    if type(tensor) is Tensor and not tensor.__dict__:
        return plain
    return _rebuild_with_state, (*plain, type(tensor), tensor.__dict__)


def _rebuild_with_state(function, arguments, cls, state):
    """A tensor of a subclass, or with attributes of its own."""
    from rushlight import Tensor

    tensor = function(*arguments)
    if cls is not Tensor:
        tensor = Tensor._make_subclass(cls, tensor, tensor.requires_grad)
    tensor.__dict__.update(state)
    return tensor


def _reduce_storage(storage):
    return _rebuild_storage, (storage.tobytes(),)


def _rebuild_storage(data):
    from rushlight import UntypedStorage

    storage = UntypedStorage(len(data))
    if data:
        from rushlight._checkpoint.storages import bytes_of

        bytes_of(storage)[:] = data
    return storage
