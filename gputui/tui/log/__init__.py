"""The log pane, which shows a document line by line and decides which job's log is shown."""

from .pane import AttemptLog, JobLog, LogPane

__all__ = ["AttemptLog", "JobLog", "LogPane"]
