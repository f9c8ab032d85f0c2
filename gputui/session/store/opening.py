"""The opening of a session whose lock this process holds, provided that it may be opened on this machine."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.job import EngineName, JobId, Lost
from gputui.core.scheduler import Scheduler
from gputui.engines.protocol import LEFT_BEHIND, Since
from gputui.process.directories import DirectoryId, is_local
from gputui.process.machine import HostIdentity, collect_rarely, this_host
from gputui.session.environment import captured, digest
from gputui.session.errors import ForeignSession, SessionError, StoreDamaged, StoreTrouble
from gputui.session.job_directories import Directories, taken_numbers
from gputui.session.loading import SourceKind
from gputui.session.messages import EventKind, Layout, LoggedEvent
from gputui.session.registry import remember
from gputui.session.saved_state import take_notices
from gputui.session.session_dir import Paths, is_in_use

from . import backup
from .backup import count_running, home_of
from .commit import apply_noted_pause
from .rebuild import (
    LOST,
    find_unknown_attempts,
    is_behind,
    read_claims,
    read_notes,
    rebuild,
    session_of_running,
    unblock_jobs,
)
from .store import Change, Identity, Store

ADOPT = "if nothing can still be running there: gputui run --adopt --output-dir {root}"
ADOPT_IN_CLUSTER = "if no gputui runs on {host} any more, continue it here: gputui run --adopt --output-dir {root}"


def refuse_other_machine(paths: Paths, here: HostIdentity) -> None:
    """Raise ForeignSession if the session belongs to another machine. Its store is not opened."""
    lives = home_of(paths.database) or home_of(paths.backup)
    if lives is None or lives.same_machine(here) or is_local(paths.private):
        return
    running = count_running(paths)
    in_cluster = running is not None and running.in_cluster
    advice = (ADOPT_IN_CLUSTER if in_cluster else ADOPT).format(host=lives.hostname, root=paths.root)
    raise ForeignSession(
        f"{paths.root} lives on {lives.hostname} ({running or 'some running'}): "
        f"ssh -t {lives.hostname} gputui, or start another with --output-dir; {advice}",
        in_cluster=in_cluster,
    )


def refuse_other_container(paths: Paths, stored: Identity, here: HostIdentity, running: int) -> None:
    """Raise ForeignSession if the session belongs to another container in which wrappers still run."""
    other = running and what_happened_since(stored, here, DirectoryId.of(paths.private)) is Since.WORLD_ENDED
    if other and is_in_use(paths.private):
        raise ForeignSession(
            f"{paths.root} belongs to another container on {stored.world.hostname} ({running} running): use it "
            f"there, or start another with --output-dir; {ADOPT.format(root=paths.root)}"
        )


def what_happened_since(stored: Identity, here: HostIdentity, directory: DirectoryId) -> Since:
    """Return what has happened since the running attempts were started."""
    if stored.world.boot != here.boot:
        return Since.REBOOT
    if stored.directory != directory:
        return Since.COPY
    return Since.NOTHING if stored.world.same_processes(here) else Since.WORLD_ENDED


WENT_DOWN = Lost(LEFT_BEHIND[Since.REBOOT])


class Opened(msgspec.Struct):
    store: Store
    scheduler: Scheduler
    identity: Identity
    since: Since
    """What has happened since the running attempts were started."""
    notices: list[str]
    """Messages for the user."""


def open_session(paths: Paths, layout: Layout, *, made_directory: bool = False, adopt: bool = False) -> Opened:
    """Open the session, creating or rebuilding the store if necessary. Raises SessionError with a message for the user.
    A session of another machine is not changed.

    With `adopt`, the user has confirmed that no process of the session still runs where it was used before.
    """
    collect_rarely()
    notices = [*paths.notices, *take_notices(paths.private)]
    world, directory = this_host(), DirectoryId.of(paths.private)
    if not adopt:
        refuse_other_machine(paths, world)
    try:
        store, scheduler, stored = _opened(paths, notices)
    except StoreTrouble as trouble:
        raise SessionError(f"{trouble} ({paths.database}): is the disk full or read-only?") from trouble
    try:
        if stored is None:
            happened = Since.NOTHING
            identity = _create_session(paths, store, scheduler, layout, world, made_directory, notices)
        else:
            happened = what_happened_since(stored, world, directory)
            if not adopt:
                refuse_other_container(paths, stored, world, len(scheduler.book.active))
            # Otherwise processes of the original, or unrelated ones with an old pid, could be taken for this session's.
            renamed = happened is Since.COPY or (happened is Since.REBOOT and not _runs_in_cluster(scheduler))
            name = uuid.uuid4().hex if renamed else stored.uuid
            identity = replace(stored, world=world, directory=directory, uuid=name)
            rebooted = stored.world.boot != world.boot
            if rebooted or happened is Since.COPY:  # the original continues its log, or the newest events were lost
                identity = identity.with_new_event_log(store.event_numbers()[1] + 1)
            scheduler = _catch_up(paths, store, scheduler, identity, notices, rebooted=rebooted)
    except BaseException:
        store.close()
        raise
    if stored is None or stored.world.boot != world.boot:
        scheduler.clock = None  # it is relative to the boot
    apply_noted_pause(scheduler, paths.private, time.time())
    if happened is Since.COPY and scheduler.book.active:
        notices.append(f"{paths.root} is a copy: jobs that were running continue in the original")
    return Opened(store, scheduler, identity, happened, notices)


def _runs_in_cluster(scheduler: Scheduler) -> bool:
    placed = (scheduler.book[job].active for job in scheduler.book.active)
    return any(each is not None and each.engine is not EngineName.LOCAL for each in placed)


def _opened(paths: Paths, notices: list[str]) -> tuple[Store, Scheduler, Identity | None]:
    if os.path.exists(paths.rebuilt) and not os.path.exists(paths.database):
        os.replace(paths.rebuilt, paths.database)  # the rebuilding was interrupted before this last step
    try:
        _refuse_empty(paths)
        store, scheduler, identity = _load(Store(paths.database))
    except StoreDamaged as damage:
        return _rebuild(paths, str(damage), notices)
    only_in_backup = backup.commits_in(paths.backup) - store.commits()
    if only_in_backup <= 0:
        return store, scheduler, identity
    store.close()
    changes = counted(only_in_backup, "change that is in its backup", "changes that are in its backup")
    return _rebuild(
        paths, f"the queue database lacks {changes}, perhaps because its log (session.db-wal) was lost", notices
    )


def _load(store: Store) -> tuple[Store, Scheduler, Identity | None]:
    try:
        store.check()
        return store, store.load(), store.identity()
    except BaseException:
        store.close()
        raise


def _refuse_empty(paths: Paths) -> None:
    """Raise StoreDamaged if the database is missing or empty although jobs have left traces. SQLite would silently
    create a new one.
    """
    try:
        if os.stat(paths.database).st_size:
            return
        is_there = True
    except FileNotFoundError:
        is_there = False
    has_traces = os.path.exists(paths.backup) or bool(read_claims(paths.claims))
    if has_traces or (is_there and read_notes(paths.root)):
        raise StoreDamaged(f"the queue database is {'empty' if is_there else 'gone'}")


def _create_session(
    paths: Paths,
    store: Store,
    scheduler: Scheduler,
    layout: Layout,
    world: HostIdentity,
    made_directory: bool,
    notices: list[str],
) -> Identity:
    """Create a session. New jobs do not get the numbers of job directories that already exist."""
    directory = DirectoryId.of(paths.private)
    name = session_of_running(paths.claims, directory) or uuid.uuid4().hex
    identity = Identity(name, world, directory, layout.prefix, layout.job_dir, made_directory)
    identity = identity.with_new_event_log(store.event_numbers()[1] + 1)
    taken_directories = taken_numbers(paths.root, layout)
    if taken_directories and not len(scheduler.book):
        scheduler.book.first_id = max(taken_directories) + 1
        directories = counted(len(taken_directories), "job directory", "job directories")
        notices.append(
            f"{paths.root} has {directories} from an earlier run; they are kept, "
            f"and new ids start at {scheduler.book.first_id}"
        )
    _commit(store, Change(record=scheduler.record(), identity=identity, full=True))
    store.checkpoint()  # other machines read only the main file to find out where the session belongs
    remember(paths.root)
    return identity


def _commit(store: Store, change: Change) -> None:
    try:
        store.commit(change)
    except StoreTrouble as trouble:
        raise SessionError(f"{trouble} ({store.path}): is the disk full or read-only?") from trouble


def _rebuild(paths: Paths, damage: str, notices: list[str]) -> tuple[Store, Scheduler, Identity | None]:
    """Build a new store next to the damaged one, which it replaces in the last step. This can be interrupted at any
    point.
    """
    part = paths.rebuilt + ".part"
    try:
        store, scheduler, origin = _from_backup(paths, part)
        identity = store.identity()
        started = find_unknown_attempts(scheduler.book, directories_of(paths, identity)) if identity is not None else {}
        rebuilt = _bring_up_to_date(paths, store, scheduler, notices, started, stale=True)
        _forget_sources(store, notices)
        store.close()
        os.replace(part, paths.rebuilt)
        aside = backup.set_aside(paths)
        os.replace(paths.rebuilt, paths.database)
    except OSError as error:
        raise SessionError(f"{damage}; it cannot be rebuilt: {error.strerror} ({error.filename})") from error
    kept_as = f"Kept as {aside}. " if os.path.exists(aside) else ""
    notices.append(
        f"{damage}. {kept_as}Rebuilt from {origin}; {counted(rebuilt, 'job was', 'jobs were')} brought up to date "
        "from their directories. Jobs added after that which had not started are missing: load them again."
    )
    return _load(Store(paths.database))


def directories_of(paths: Paths, identity: Identity) -> Directories:
    return Directories(
        paths.root, identity.prefix, identity.job_dir, made=identity.made_directory, former=identity.former
    )


def _forget_sources(store: Store, notices: list[str]) -> None:
    """Forget sources that were being read. The backup does not say how far they have been read, and no line may run
    twice.
    """
    sources = store.sources()
    kept = [source for source in sources if source.ended or source.kind is SourceKind.FILE]
    _commit(store, Change(sources=kept))
    lost_sources = [source.path for source in sources if source not in kept]
    if lost_sources:
        notices.append(f"no longer followed: {', '.join(lost_sources)}; pass them again")


def _from_backup(paths: Paths, to: str) -> tuple[Store, Scheduler, str]:
    _clear(to)
    if os.path.exists(paths.backup) and os.path.getsize(paths.backup):
        backup_time = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(paths.backup).st_mtime))
        try:
            backup.restore(paths, to)
            store, scheduler, _ = _load(Store(to))
            return store, scheduler, f"the backup of {backup_time}"
        except StoreDamaged:
            _clear(to)
    store = Store(to)
    return store, store.load(), "nothing (no usable backup)"


def _clear(database: str) -> None:
    for suffix in (*backup.LOGS, ""):
        with suppress(FileNotFoundError):
            os.unlink(database + suffix)


def _bring_up_to_date(
    paths: Paths,
    store: Store,
    scheduler: Scheduler,
    notices: list[str],
    started: Mapping[JobId, int],
    lost: Lost = LOST,
    *,
    stale: bool = False,
) -> int:
    """Add to the store what only job directories and claims show. Return the number of jobs that changed.

    `stale` means that the store is a backup, so an attempt that is running there may have ended long ago.
    """
    environment = captured()
    jobs = list(scheduler.book)
    rebuilt = rebuild(paths, scheduler.record(), jobs, digest(environment), started, lost, stale=stale)
    fresh = Scheduler(scheduler.record(), rebuilt.jobs)
    fresh.next_position = max((job.position + 1 for job in rebuilt.jobs), default=0.0)
    unblock_jobs(fresh.book, time.time())
    environments = {digest(environment): environment}
    identity, number = store.identity(), store.event_numbers()[1] + 1
    gap = LoggedEvent(
        event=EventKind.GAP, time=time.time(), message="the queue was restored; some events may be missing"
    )
    _commit(
        store,
        Change(
            jobs=list(fresh.book),
            environments=environments,
            record=fresh.record(),
            identity=identity.with_new_event_log(number) if identity is not None else None,
            events=[(number, gap)],
            full=True,
        ),
    )
    if rebuilt.doubts:
        doubtful = len(rebuilt.doubts) - 1
        others = f" (and {doubtful:,} more)" if doubtful else ""
        notices.append(f"some directories were ignored: {rebuilt.doubts[0]}{others}")
    return rebuilt.from_directories


def _catch_up(
    paths: Paths, store: Store, scheduler: Scheduler, identity: Identity, notices: list[str], *, rebooted: bool
) -> Scheduler:
    """Restore from the traces of jobs what the store has lost in a power cut, so that no job runs again. Return the
    updated scheduler.
    """
    directories = directories_of(paths, identity)
    started = find_unknown_attempts(scheduler.book, directories) if rebooted else {}
    if not started and not is_behind(scheduler.book, directories, paths.claims):
        return scheduler
    restored = _bring_up_to_date(paths, store, scheduler, notices, started, WENT_DOWN if rebooted else LOST)
    if restored:
        notices.append(
            "the queue was missing its last changes, perhaps after a power cut: "
            f"{counted(restored, 'job was', 'jobs were')} updated from their directories. If jobs are missing, "
            "load them again."
        )
    return store.load()
