"""Holding a session: everything between taking its lock and letting go of it, for whoever owns one."""

from __future__ import annotations

from collections.abc import Callable

from gputui.session.control.serving import Serving
from gputui.session.files.paths import Paths
from gputui.session.owner.owner import Owner
from gputui.session.store.opening import Layout

from .acquisition import become_owner
from .lock import OwnerKind


class Holding:
    """A session that this process owns: its scheduler, its socket, its waiting keeper."""

    def __init__(
        self,
        paths: Paths,
        kind: OwnerKind,
        *,
        layout: Layout | None = None,
        keeper: bool = True,
        force: bool = False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises Owned if an app or a run has the session, unless it is taken by force."""
        made_folder = paths.create()
        self._ownership = become_owner(paths, kind, keeper=keeper, force=force)
        try:
            self.owner = Owner(
                paths, self._ownership.lock, kind, layout=layout, made_folder=made_folder, on_change=on_change
            )
            self.serving = self._served(keeper=keeper)
        except BaseException:
            self._ownership.lock.release()
            raise

    def _served(self, *, keeper: bool) -> Serving:
        try:
            return Serving(self.owner, keeper=keeper, keeper_pid=self._ownership.keeper)
        except BaseException:
            self.owner.close()
            raise

    def let_go(self, *, without_successor: bool) -> None:
        """Jobs run on. `without_successor`: no keeper is left behind when there is nothing for it to do."""
        self.serving.without_successor = without_successor
        try:
            self.owner.close()
        finally:
            self._ownership.lock.release()  # handed over: the taker has a descriptor of its own

    def why_gone(self) -> str:
        """For an owner that ended by itself."""
        if self.serving.handed_over:
            return "the session was taken over by another gputui, which goes on with it"
        if self.owner.ousted is not None:
            return self.owner.ousted
        failure = (self.owner.failure or "no reason is known").splitlines()[-1]
        return f"the scheduler failed; its jobs run on: {failure} ({self.owner.paths.log})"
