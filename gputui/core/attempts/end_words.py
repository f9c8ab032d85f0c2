"""An end in words, for stories and for failures whose log says nothing."""

from __future__ import annotations

from gputui.core.job import Crashed, End, Failed, Lost, Refused, Skipped, TimedOut


def words(end: End) -> str:
    match end:
        case Failed(code=code):
            return f"exit code {code}"
        case Crashed(signal=signal):
            return f"killed by signal {signal}"
        case TimedOut(limit=limit, silent=True):
            return f"did nothing for {limit:g} s and was ended"
        case TimedOut(limit=limit):
            return f"timed out after {limit:g} s"
        case Lost(why=why) | Refused(why=why):
            return why
        case Skipped(because=because):
            return f"skipped: #{because} did not succeed"
    return end.name
