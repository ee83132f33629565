"""`torch.version`: the version and the features of this build."""

from rushlight import __version__

cuda = None
hip = None
rocm = None
xpu = None
debug = False
git_version = ""
__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]
