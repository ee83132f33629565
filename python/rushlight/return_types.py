"""`torch.return_types`: the classes of results with names."""

from rushlight import _C
from rushlight._results import histogramdd as histogramdd

globals().update(_C._return_types())
