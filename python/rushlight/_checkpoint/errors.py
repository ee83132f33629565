"""Converts the engine's errors about checkpoints to torch's exceptions and messages."""

import pickle

from rushlight import _C

from .allowed import blocked_module

_CORRUPT = (
    "This is an internal miniz error. If you are seeing this error, there is a high likelihood that your checkpoint "
    "file is corrupted. This can happen if the checkpoint was not saved properly, was transferred incorrectly, or the "
    "file was modified after saving."
)
#: The additional sentence for one of the engine's own errors.
_COMPRESSED = "Compressed records are not supported: create the archive without compression (`zip -0`)."
_ADVICE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)
_DOCUMENTATION = (
    "Check the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def translated(action):
    """Runs `action` and converts its errors about the file to torch's exceptions and messages."""
    try:
        return action()
    except _C._CheckpointError as error:
        kind, about = error.args
        cause = error.__cause__
    if kind == "archive":
        advice = _COMPRESSED if "is compressed" in about else _CORRUPT
        raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {about}. {advice}")
    if kind == "missing":
        raise RuntimeError(f"PytorchStreamReader failed locating file {about}: file not found. {_CORRUPT}")
    if kind == "global":
        raise pickle.UnpicklingError(_unsupported_global(about))
    raise pickle.UnpicklingError(
        f"Weights only load failed. {_ADVICE}\nPlease file an issue with the following so that we can make "
        f"`weights_only=True` compatible with your use case: WeightsUnpickler error: \n\n{about}\n\n{_DOCUMENTATION}"
    ) from cause


def _unsupported_global(name: str) -> str:
    module = blocked_module(name)
    if module is not None:
        return (
            f"Weights only load failed. {_ADVICE}\n\n\nTrying to load unsupported GLOBAL {name} whose module {module} "
            f"is blocked.\n\n{_DOCUMENTATION}"
        )
    return (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "\x1b[1mdo those steps only if you trust the source of the checkpoint\x1b[0m. \n"
        f"\t(1) {_ADVICE}\n"
        "\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps in the following "
        f"error message.\n\tWeightsUnpickler error: Unsupported global: GLOBAL {name} was not an allowed global by "
        f"default. Please use `torch.serialization.add_safe_globals([{name}])` or the "
        f"`torch.serialization.safe_globals([{name}])` context manager to allowlist this global if you trust this "
        f"class/function.\n\n{_DOCUMENTATION}"
    )
