"""Where a session lives: whether it may be opened here, and what has happened since its last owner opened it.

Decided by what only the kernel can know where it can know it: in the same boot, or on a disk that no other machine
can have mounted, whoever lives holds the session's private folder.
"""

from __future__ import annotations

import uuid

from msgspec.structs import replace

from gputui.engines.protocol import Since
from gputui.process.folder_id import FolderId
from gputui.process.mounts import is_local
from gputui.process.world import World
from gputui.session.errors import ForeignSession
from gputui.session.files.ground import somebody_lives
from gputui.session.files.paths import Paths

from .peek import home_of, running_in
from .store import Identity

ADOPT = "if nothing of it can run there any more: gputui run --adopt --output-dir {root}"


def refuse_far(paths: Paths, here: World) -> None:
    """Looked up without opening: what is open on another machine must not be touched from this one."""
    lives = home_of(paths.database)
    if lives is None or lives.same_machine(here) or is_local(paths.private):
        return
    raise ForeignSession(
        f"{paths.root} lives on {lives.hostname} ({running_in(paths.database)} running): "
        f"ssh -t {lives.hostname} gputui, or begin another with --output-dir; {ADOPT.format(root=paths.root)}"
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
