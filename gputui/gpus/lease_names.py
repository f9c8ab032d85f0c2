"""Which files of the folder that all users share may be leases. Anybody may fill it, so a look has an upper limit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import chain, islice

PREFIX = "gputui-lease."
MOST_OF_A_USER = 64
"""Names of one user on one device that are looked at; nobody runs as many jobs on a card."""
MOST_AT_ONCE = 256
"""Names of one device that are looked at in one look."""
_SETTLED_NS = 50_000_000
"""A folder that changed so shortly before it was listed may have changed after it, within one tick of its clock."""


class LeaseNames:
    """Lists the folder only when it has changed, and remembers which names turned out to be nobody's lease."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listed_at = -1
        self._known: frozenset[str] = frozenset()
        self._worth: dict[str, dict[str, dict[str, None]]] = {}
        """Names by device and by the user that they claim."""

    def of(self, device: str, first: Iterable[str] = ()) -> list[str]:
        """Those worth opening; `first` are names that must not be crowded out."""
        self._list()
        users = self._worth.get(device, {})
        some_of_each = chain.from_iterable(islice(names, MOST_OF_A_USER) for names in users.values())
        wanted = dict.fromkeys(chain((name for name in first if name in self._known), some_of_each))
        return list(islice(wanted, MOST_AT_ONCE))

    def strike(self, name: str) -> None:
        """It is not what it says, and never will be: in a sticky folder nobody can put another file in its place."""
        _, device, user, *_ = name.split(".")
        self._worth.get(device, {}).get(user, {}).pop(name, None)

    def _list(self) -> None:
        try:
            changed_at = os.stat(self._folder).st_mtime_ns
            if changed_at == self._listed_at:
                return
            names = frozenset(name for name in os.listdir(self._folder) if name.startswith(PREFIX))
        except OSError:
            changed_at, names = -1, frozenset()
        self._listed_at = changed_at if time.time_ns() - changed_at > _SETTLED_NS else -1
        before, self._known = self._known, names
        for name in before - names:
            self._forget(name)
        for name in names - before:
            self._learn(name)

    def _learn(self, name: str) -> None:
        parts = name.split(".")
        if len(parts) == 5:
            self._worth.setdefault(parts[1], {}).setdefault(parts[2], {})[name] = None

    def _forget(self, name: str) -> None:
        parts = name.split(".")
        if len(parts) == 5:
            users = self._worth[parts[1]]
            names = users.get(parts[2], {})
            names.pop(name, None)
            if not names:
                users.pop(parts[2], None)
