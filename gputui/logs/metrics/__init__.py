"""Metrics and progress in the output of training programs. `MetricReader` is the interface.

Pure: takes bytes and returns readings, without files, a clock or a store.
"""

from gputui.core.results import WantedMetric, parse_wanted_metric

from .findings import MetricReading
from .reader import MetricReader

__all__ = ["MetricReader", "MetricReading", "WantedMetric", "parse_wanted_metric"]
