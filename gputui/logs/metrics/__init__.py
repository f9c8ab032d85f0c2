"""Find metrics and progress in the output of training programs. `MetricReader` is the interface.

The package takes bytes and returns readings. It uses no files, clock or store.
"""

from gputui.core.results import WantedMetric, parse_wanted_metric

from .findings import MetricReading
from .reader import MetricReader

__all__ = ["MetricReader", "MetricReading", "WantedMetric", "parse_wanted_metric"]
