"""gputui: a terminal app that embeds a GPU job scheduler.

From Python: `gputui.Session` and the decorator `gputui.job` (see `gputui.api`); `gputui.tasks` for GPUTaskScheduler's.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import Job as Job
    from .api import JobFailed as JobFailed
    from .api import Result as Result
    from .api import Session as Session
    from .api import SessionError as SessionError
    from .api import Stuck as Stuck
    from .api import job as job

_FROM_API = ("Job", "JobFailed", "Result", "Session", "SessionError", "Stuck", "job")


def __getattr__(name: str) -> object:
    """The interface is loaded when it is asked for: every verb imports this package, and must start at once."""
    if name not in _FROM_API:
        raise AttributeError(f"module 'gputui' has no attribute {name!r}")
    found: object = getattr(__import__("gputui.api", fromlist=[name]), name)
    return found
