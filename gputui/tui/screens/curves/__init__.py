"""Curves of results: of several jobs over each other, and how a chart is painted wherever one is shown.

What may enter: choosing the metric, laying out and painting. Points come from the owner through the bridge, a chart is
drawn by `tui.model.chart`. Opened by `tui.actions`, used by the details of a job.
"""
