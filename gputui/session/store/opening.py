"""Opening a session whose lock we hold, and whether it may be opened here."""

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
from gputui.process.directories import FolderId, is_local
from gputui.process.machine import World, collect_rarely, this_world
from gputui.session.environment import captured, digest
from gputui.session.errors import ForeignSession, SessionError, StoreDamaged, StoreTrouble
from gputui.session.job_folders import Folders
from gputui.session.layouts import Layout as Layout
from gputui.session.layouts import taken_numbers
from gputui.session.loading import SourceKind
from gputui.session.registry import remember
from gputui.session.saved_state import take_notices
from gputui.session.session_dir import Paths, somebody_lives

from . import backup
from .backup import home_of, under_way
from .commit import apply_noted_pause
from .rebuild import (
    LOST,
    begun_unknown,
    is_behind,
    read_claims,
    read_notes,
    rebuild,
    session_of_running,
    settle_blocked,
)
from .store import Change, Identity, Store

# ---- Where a session lives ----


ADOPT = "if nothing of it can run there any more: gputui run --adopt --output-dir {root}"
ADOPT_IN_CLUSTER = "if no gputui runs on {host} any more, continue it here: gputui run --adopt --output-dir {root}"


def refuse_far(paths: Paths, here: World) -> None:
    """Looked up without opening: what is open on another machine must not be touched from this one."""
    lives = home_of(paths.database) or home_of(paths.backup)
    if lives is None or lives.same_machine(here) or is_local(paths.private):
        return
    found = under_way(paths)
    in_cluster = found is not None and found.in_cluster
    advice = (ADOPT_IN_CLUSTER if in_cluster else ADOPT).format(host=lives.hostname, root=paths.root)
    raise ForeignSession(
        f"{paths.root} lives on {lives.hostname} ({found or 'some running'}): "
        f"ssh -t {lives.hostname} gputui, or begin another with --output-dir; {advice}",
        in_cluster=in_cluster,
    )


def refuse_other_container(paths: Paths, stored: Identity, here: World, running: int) -> None:
    """While anybody lives there, or it cannot be known: wrappers of gputui 0.1.0 hold nothing."""
    lives = stored.world
    if not running or since(stored, here, FolderId.of(paths.private)) is not Since.WORLD_ENDED:
        return
    if stored.folder is None or somebody_lives(paths.private):
        raise ForeignSession(
            f"{paths.root} lives in another container on {lives.hostname} ({running} running): "
            f"use it from there, or begin another with --output-dir; {ADOPT.format(root=paths.root)}"
        )


def since(stored: Identity, here: World, folder: FolderId) -> Since:
    """What attempts that were under way have lived through."""
    if stored.world.boot != here.boot:
        return Since.REBOOT
    if stored.folder not in (None, folder):
        return Since.COPY
    return Since.NOTHING if stored.world.same_processes(here) else Since.WORLD_ENDED


def settled(stored: Identity, here: World, folder: FolderId, *, in_cluster: bool = False) -> Identity:
    """As it is from now on. Where processes may bear the name of a session that is not this one, it gets another.

    `in_cluster`: attempts of it go on elsewhere, under its name, whatever became of this machine.
    """
    happened = since(stored, here, folder)
    renamed = happened is Since.COPY or (happened is Since.REBOOT and not in_cluster)
    return replace(stored, world=here, folder=folder, uuid=uuid.uuid4().hex if renamed else stored.uuid)


# ---- Opening a session whose lock we hold ----


WENT_DOWN = Lost(LEFT_BEHIND[Since.REBOOT])


class Opened(msgspec.Struct):
    store: Store
    scheduler: Scheduler
    identity: Identity
    since: Since
    """What attempts under way have lived through."""
    notices: list[str]
    """What the user must be told."""


def open_session(paths: Paths, layout: Layout, *, made_folder: bool = False, adopt: bool = False) -> Opened:
    """Raises SessionError with the sentence for the user; changes nothing in a session of another machine.

    `adopt`: the user says that nothing of it runs where it lived.
    """
    collect_rarely()
    notices = [*paths.notices, *take_notices(paths.private)]
    world, folder = this_world(), FolderId.of(paths.private)
    if not adopt:
        refuse_far(paths, world)
    try:
        store, scheduler, stored = _opened(paths, notices)
    except StoreTrouble as trouble:
        raise SessionError(f"{trouble} ({paths.database}): is the disk full or read-only?") from trouble
    try:
        if stored is None:
            identity = _found_session(paths, store, scheduler, layout, world, made_folder, notices)
        else:
            if not adopt:
                refuse_other_container(paths, stored, world, len(scheduler.book.active))
            identity = settled(stored, world, folder, in_cluster=_in_cluster(scheduler))
            rebooted = stored.world.boot != world.boot
            scheduler = _caught_up(paths, store, scheduler, identity, notices, rebooted=rebooted)
    except BaseException:
        store.close()
        raise
    if stored is None or stored.world.boot != world.boot:
        scheduler.clock = None  # what it was measured against began anew
    apply_noted_pause(scheduler, paths.private, time.time())
    happened = since(stored, world, folder) if stored is not None else Since.NOTHING
    if happened is Since.COPY and scheduler.book.active:
        notices.append(f"{paths.root} is a copy: what ran when it was made goes on where it was copied from")
    return Opened(store, scheduler, identity, happened, notices)


def _in_cluster(scheduler: Scheduler) -> bool:
    placed = (scheduler.book[job].active for job in scheduler.book.active)
    return any(each is not None and each.engine is not EngineName.LOCAL for each in placed)


def _opened(paths: Paths, notices: list[str]) -> tuple[Store, Scheduler, Identity | None]:
    if os.path.exists(paths.rebuilt) and not os.path.exists(paths.database):
        os.replace(paths.rebuilt, paths.database)  # whoever rebuilt it was stopped before the last step
    try:
        _refuse_empty(paths)
        store, scheduler, identity = _loaded(Store(paths.database))
    except StoreDamaged as damage:
        return _rebuilt(paths, str(damage), notices)
    only_in_backup = backup.commits_in(paths.backup) - store.commits()
    if only_in_backup <= 0:
        return store, scheduler, identity
    store.close()
    changes = counted(only_in_backup, "change that its backup has", "changes that its backup has")
    return _rebuilt(paths, f"the queue's file has lost {changes}, perhaps with its log (session.db-wal)", notices)


def _loaded(store: Store) -> tuple[Store, Scheduler, Identity | None]:
    try:
        store.check()
        return store, store.load(), store.identity()
    except BaseException:
        store.close()
        raise


def _refuse_empty(paths: Paths) -> None:
    """SQLite takes a file that is gone or empty for a new database; beside what jobs have left it is a lost one."""
    try:
        if os.stat(paths.database).st_size:
            return
        is_there = True
    except FileNotFoundError:
        is_there = False
    has_traces = os.path.exists(paths.backup) or bool(read_claims(paths.claims))
    if has_traces or (is_there and read_notes(paths.root)):
        raise StoreDamaged(f"the queue's file is {'empty' if is_there else 'gone'}")


def _found_session(
    paths: Paths,
    store: Store,
    scheduler: Scheduler,
    layout: Layout,
    world: World,
    made_folder: bool,
    notices: list[str],
) -> Identity:
    """A new session. Folders that an earlier tool left keep their numbers; ours begin after them."""
    folder = FolderId.of(paths.private)
    name = session_of_running(paths.claims, folder) or uuid.uuid4().hex
    identity = Identity(name, time.time(), world, layout.prefix, layout.job_dir, made_folder, folder=folder)
    taken_folders = taken_numbers(paths.root, layout)
    if taken_folders and not len(scheduler.book):
        scheduler.book.first_id = max(taken_folders) + 1
        folders = counted(len(taken_folders), "job folder", "job folders")
        notices.append(
            f"{paths.root} holds {folders} of an earlier run; they stay, new jobs begin at {scheduler.book.first_id}"
        )
    _commit(store, Change(record=scheduler.record(), identity=identity, full=True))
    store.make_room()  # the main file alone must tell where the session lives
    remember(paths.root)
    return identity


def _commit(store: Store, change: Change) -> None:
    try:
        store.commit(change)
    except StoreTrouble as trouble:
        raise SessionError(f"{trouble} ({store.path}): is the disk full or read-only?") from trouble


def _rebuilt(paths: Paths, damage: str, notices: list[str]) -> tuple[Store, Scheduler, Identity | None]:
    """Beside the damaged one, which goes only when the new one is whole: this may be cut off at any point."""
    part = paths.rebuilt + ".part"
    try:
        store, scheduler, origin = _from_backup(paths, part)
        rebuilt = _brought_up(paths, store, scheduler, notices, _begun(paths, store, scheduler), stale=True)
        _forget_sources(store, notices)
        store.close()
        os.replace(part, paths.rebuilt)
        aside = backup.set_aside(paths)
        os.replace(paths.rebuilt, paths.database)
    except OSError as error:
        raise SessionError(f"{damage}; it cannot be rebuilt: {error.strerror} ({error.filename})") from error
    kept_as = f"It is kept as {aside}. " if os.path.exists(aside) else ""
    notices.append(
        f"{damage}. {kept_as}Rebuilt from {origin}; {counted(rebuilt, 'job was', 'jobs were')} brought up to date "
        "from their folders. What was added after that and had not started is missing: load it again."
    )
    return _loaded(Store(paths.database))


def _begun(paths: Paths, store: Store, scheduler: Scheduler) -> dict[JobId, int]:
    """Attempts that a restored backup does not know of and that have left traces in their folders."""
    identity = store.identity()
    return begun_unknown(scheduler.book, folders_of(paths, identity)) if identity is not None else {}


def folders_of(paths: Paths, identity: Identity) -> Folders:
    return Folders(paths.root, identity.prefix, identity.job_dir, made=identity.made_folder, former=identity.former)


def _forget_sources(store: Store, notices: list[str]) -> None:
    """A backup does not know how far they were read since, and no line may be run twice."""
    sources = store.sources()
    kept = [source for source in sources if source.ended or source.kind is SourceKind.FILE]
    _commit(store, Change(sources=kept))
    lost_sources = [source.path for source in sources if source not in kept]
    if lost_sources:
        notices.append(f"no longer read: {', '.join(lost_sources)}; give them again")


def _from_backup(paths: Paths, to: str) -> tuple[Store, Scheduler, str]:
    _clear(to)
    if os.path.exists(paths.backup):
        backup_time = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(paths.backup).st_mtime))
        try:
            backup.restore(paths, to)
            store, scheduler, _ = _loaded(Store(to))
            return store, scheduler, f"the backup of {backup_time}"
        except StoreDamaged:
            _clear(to)
    store = Store(to)
    return store, store.load(), "nothing, for there is no usable backup"


def _clear(database: str) -> None:
    for suffix in (*backup.LOGS, ""):
        with suppress(FileNotFoundError):
            os.unlink(database + suffix)


def _brought_up(
    paths: Paths,
    store: Store,
    scheduler: Scheduler,
    notices: list[str],
    begun: Mapping[JobId, int],
    lost: Lost = LOST,
    *,
    stale: bool = False,
) -> int:
    """Writes what folders and claims know beyond the store into it; returns of how many jobs they knew more.

    `stale`: it is a backup, so an attempt that it says is under way may be long over.
    """
    environment = captured()
    jobs = list(scheduler.book)
    rebuilt = rebuild(paths, scheduler.record(), jobs, digest(environment), begun, lost, stale=stale)
    fresh = Scheduler(scheduler.record(), rebuilt.jobs)
    fresh.next_position = max((job.position + 1 for job in rebuilt.jobs), default=0.0)
    settle_blocked(fresh.book, time.time())
    environments = {digest(environment): environment}
    _commit(store, Change(jobs=list(fresh.book), environments=environments, record=fresh.record(), full=True))
    if rebuilt.doubts:
        doubtful = len(rebuilt.doubts) - 1
        others = f" ({counted(doubtful, 'more folder', 'more folders')} likewise)" if doubtful else ""
        notices.append(f"not all folders were believed: {rebuilt.doubts[0]}{others}")
    return rebuilt.from_folders


def _caught_up(
    paths: Paths, store: Store, scheduler: Scheduler, identity: Identity, notices: list[str], *, rebooted: bool
) -> Scheduler:
    """A power cut can take the last seconds of the store, but not all that jobs have left: what left a trace does not
    run again."""
    folders = folders_of(paths, identity)
    begun = begun_unknown(scheduler.book, folders) if rebooted else {}
    if not begun and not is_behind(scheduler.book, folders, paths.claims):
        return scheduler
    restored = _brought_up(paths, store, scheduler, notices, begun, WENT_DOWN if rebooted else LOST)
    if restored:
        notices.append(
            "the queue had lost its last moments, perhaps by a power cut: "
            f"{counted(restored, 'job was', 'jobs were')} brought up to date from their folders. "
            "If jobs are missing, load them again."
        )
    return store.load()
