"""`torch.return_types`: the named tuples that operators return."""

from rushlight import _C
from rushlight._results import histogramdd as histogramdd

globals().update(_C._return_types())
