"""Results: numbers that jobs print under a name, and what jobs are compared by.

What may enter: the shapes that every room uses, how the readings of an attempt become a curve, a last and a best
value, which metric matters and which job is best by it. Pure: how logs are read and kept is not known here.
"""

from .shapes import Curve, Direction, JobResults, MainMetric, MetricResult, Point

__all__ = ["Curve", "Direction", "JobResults", "MainMetric", "MetricResult", "Point"]
