"""Results that jobs print: numbers under a name, and how far a job is. Pure: bytes come in, readings come out.

What may enter: what training programs print and how it is told from all else they print. No files, no clock, no store.
Called by whoever reads logs; `MetricReader` is the door.
"""

from gputui.core.results import WantedMetric, wanted_of

from .findings import MetricReading
from .reader import MetricReader

__all__ = ["MetricReader", "MetricReading", "WantedMetric", "wanted_of"]
