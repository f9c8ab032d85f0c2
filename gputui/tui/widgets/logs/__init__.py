"""The log pane."""

from .job_log import AttemptLog, JobLog
from .pane import LogPane

__all__ = ["AttemptLog", "JobLog", "LogPane"]
