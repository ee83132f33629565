"""What pickles name: functions that build objects anew. Names and arguments are torch's, files depend on them."""


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from rushlight.nn.parameter import Parameter

    # Hooks do not travel: the dictionary in a file is always empty.
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    parameter.__dict__.update(state)
    return parameter
