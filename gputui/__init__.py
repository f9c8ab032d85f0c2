"""gputui: a terminal app with an embedded GPU job scheduler.

The Python interface is `gputui.Session` and the decorator `gputui.job` (see `gputui.python.api`). `gputui.tasks`
replaces GPUTaskScheduler.
"""

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputui.python.api import Job as Job
    from gputui.python.api import JobFailed as JobFailed
    from gputui.python.api import Result as Result
    from gputui.python.api import Session as Session
    from gputui.python.api import SessionError as SessionError
    from gputui.python.api import Stuck as Stuck
    from gputui.python.api import job as job

_FROM_API = ("Job", "JobFailed", "Result", "Session", "SessionError", "Stuck", "job")


def __getattr__(name: str) -> object:
    """Load a public name on first use, because every command imports this package and must start quickly."""
    if name not in _FROM_API:
        raise AttributeError(f"module 'gputui' has no attribute {name!r}")
    value: object = getattr(__import__("gputui.python.api", fromlist=[name]), name)
    return value
