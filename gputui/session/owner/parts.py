"""What an owner is made of: the session's folder, its store, engine, devices and writers, each on top of the others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from gputui.engines.protocol import EngineFactory
from gputui.session.devices.devices import Devices
from gputui.session.devices.recording import Recording
from gputui.session.files.folders import Folders
from gputui.session.files.ground import Ground
from gputui.session.files.paths import Paths
from gputui.session.journal import Journal
from gputui.session.results.results import SessionResults
from gputui.session.store.commit import Saver
from gputui.session.store.opening import Opened

from .info_writer import InfoWriter
from .launch import Launcher
from .loop import Loop
from .news import News


class Parts:
    """Opened in the caller's thread, which gets the errors; what was opened before an error is closed again."""

    def __init__(
        self,
        paths: Paths,
        opening: Callable[[], Opened],
        make_engine: EngineFactory,
        turn: Callable[[], None],
        *,
        looked_at: bool,
    ) -> None:
        self.paths = paths
        self.journal = Journal(paths.log)
        with ExitStack() as undo:
            self.ground = Ground(paths)
            undo.callback(self.ground.close)
            self.opened = opening()
            undo.callback(self.opened.store.close)
            self.ground.vouch_for("lock", "session.db", "session.db-wal")
            self.ground.live_here()
            self.loop = Loop()
            undo.callback(self.loop.close)
            self.news = News(self.loop, turn)
            self._keep(self.opened)
            session = self.opened.identity.uuid
            self.engine = make_engine(self.loop, self.ground.private, session, self.news.report)
            undo.callback(self.engine.close)
            self._work_on(session, looked_at=looked_at)
            undo.pop_all()

    def _keep(self, opened: Opened) -> None:
        """What is on the disk, and in memory of it."""
        named = opened.identity
        self.store, self.scheduler = opened.store, opened.scheduler
        self.sources = {source.key: source for source in opened.store.sources()}
        self.folders = Folders(
            self.paths.root, named.prefix, named.job_dir, made=named.made_folder, former=named.former
        )
        self.folders.hold(self.ground.root)
        self.saver = Saver(self.store, named, self.journal, self.sources)

    def _work_on(self, session: str, *, looked_at: bool) -> None:
        """What does something to jobs and devices."""
        news = self.news
        self.info_writer = InfoWriter(self.folders, self.ground.paths.claims, self.engine.forget)
        recording = Recording(self.saver.spans, self.ground.paths.history)
        self.devices = Devices(
            self.loop, session, self.engine.token, news.kick, recording, self.folders.folder, looked_at=looked_at
        )
        self.launcher = Launcher(
            self.paths, self.folders, self.store, self.engine, news.report, self.info_writer.note, self.devices
        )

        self.results = SessionResults(self.store, self.scheduler, self.folders, self.journal, self._results_read)

    def _results_read(self) -> None:
        self.loop.call_soon_threadsafe(self.news.kick)

    def _keep_results(self) -> None:
        """What has ended is read to its end and stored before the store is closed."""
        self.results.close(self.saver)
        self.saver.keep_results()

    def closers(self) -> tuple[Callable[[], None], ...]:
        """Each is to be called, whatever became of the ones before; the ground is left last of all."""
        return (
            self.engine.close,
            self.devices.close,
            self._keep_results,
            self.info_writer.close,
            self.loop.close,
            self.store.close,
        )

    def leave_ground(self) -> None:
        if self.info_writer.ended:
            self.ground.close()
