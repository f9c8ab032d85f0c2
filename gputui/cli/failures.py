"""Failures of programs that own a session, as one sentence and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from gputui.core.events import Refusal
from gputui.process.watch import NoThread
from gputui.session.control.connection import ClientError
from gputui.session.errors import SessionError
from gputui.sources.source import BadInput

from .output import USAGE, Exit, say


def carried_out(work: Callable[[], int]) -> int:
    """0 all done, 1 refused or failed, 2 wrong usage."""
    try:
        return work()
    except Exit as leaving:
        if str(leaving):
            say(str(leaving))
        return leaving.status
    except (BadInput, SessionError, Refusal) as error:
        say(str(error))
        return USAGE
    except (ClientError, NoThread) as error:
        say(str(error))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
