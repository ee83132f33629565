"""`torch.cuda`: whether there are cards, and what programs ask of them when there are none.

The driver is looked for when somebody asks; without one nothing here fails that works on a machine without a card in
torch too.
"""

from rushlight import _C

_NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)


def device_count():
    """The number of cards that the driver shows."""
    return _C._cuda_device_count()


def is_available():
    """Whether tensors can live on a card: not yet, whatever the driver shows."""
    return False


def is_initialized():
    """Whether a card is in use."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether a card computes in bfloat16."""
    return False


def init():
    """Starts the driver."""
    raise RuntimeError(_NO_DRIVER)


def manual_seed(seed):
    """Seeds the current card's generator; without a card there is nothing to seed."""


def manual_seed_all(seed):
    """Seeds every card's generator; without a card there is nothing to seed."""


def empty_cache():
    """Gives cached memory back; without a card there is none."""


def synchronize(device=None):
    """Waits for a card."""
    raise RuntimeError(_NO_DRIVER)


def current_device():
    """The number of the card in use."""
    raise RuntimeError(_NO_DRIVER)


def set_device(device):
    """Chooses the card in use."""
    raise RuntimeError(_NO_DRIVER)


def get_device_name(device=None):
    """The card's name."""
    raise RuntimeError(_NO_DRIVER)


def get_device_properties(device=None):
    """What the card can do."""
    raise RuntimeError(_NO_DRIVER)


def memory_allocated(device=None):
    """Bytes in use on a card."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes that were in use on a card."""
    return 0


def memory_reserved(device=None):
    """Bytes taken from a card."""
    return 0


def reset_peak_memory_stats(device=None):
    """Starts counting the most bytes anew."""
