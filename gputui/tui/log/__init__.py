"""The log pane: one job's output, line by line, its attempts and streams, and searching in it.

What may enter: showing documents of `logs`; what a line means is decided there.
Called by `tui.screens`, by these names.
"""

from .pane import AttemptLog, JobLog, LogPane

__all__ = ["AttemptLog", "JobLog", "LogPane"]
