"""`torch.version`: what was built."""

from rushlight import __version__

cuda = None
hip = None
debug = False
git_version = ""
__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]
