"""`torch.return_types`: the classes of results with names."""

from rushlight import _C

globals().update(_C._return_types())
