"""Regular expressions that are compiled when they are first used.

A command needs only a few expressions, and compiling all of them takes as long as starting Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr

if TYPE_CHECKING:
    from re import Pattern


def lazy_regex(source: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Pattern[AnyStr]:
    return _LazyRegex(source, flags)  # type: ignore[return-value]  # it has the methods of the pattern


class _LazyRegex:
    def __init__(self, source: Any, flags: re.RegexFlag) -> None:
        self._given = (source, flags)

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern and cache the requested method. Called once for each method that is used."""
        method = getattr(re.compile(*self._given), name)
        setattr(self, name, method)
        return method
