"""The log pane: one job's output, line by line, its attempts and streams, and searching in it.

What may enter: showing documents of `logs`; what a line means is decided there.
Called by `tui.screens`, by these names.
"""

from .job_log import AttemptLog, JobLog
from .pane import LogPane

__all__ = ["AttemptLog", "JobLog", "LogPane"]
