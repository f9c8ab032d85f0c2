"""The log pane: a document on the screen, line by line, and which job's log it is."""

from .pane import AttemptLog, JobLog, LogPane

__all__ = ["AttemptLog", "JobLog", "LogPane"]
