"""What each user has of the machine, and the machine itself, below the cards. Pure."""

from __future__ import annotations

from msgspec import Struct

from gputui.core.views.amounts import counted, duration_words
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import Status
from gputui.logs.plain import plain

from .occupants import View
from .page import Ink, InkPiece, PageLine, Room, gap, left, right, spot

_GIB, _TIB = 1024**3, 1024**4
_YOU = "you"


class UserTotal(Struct, frozen=True):
    name: str
    gpus: int
    memory: int
    ours: bool


class Totals(Struct, frozen=True):
    users: tuple[UserTotal, ...]
    """Who has most first."""
    free: int
    lost: int
    memory: int
    """Of all devices."""


def totals(picture: DevicesPicture) -> Totals:
    """By the processes that compute; a job whose processes are not to be seen is yours."""
    used: dict[tuple[str, bool], tuple[set[str], int]] = {}
    for device in picture.devices:
        for name, ours, memory in _shares(device, picture):
            keys, sofar = used.get((name, ours), (set(), 0))
            used[name, ours] = keys | {device.sample.key}, sofar + memory
    users = [UserTotal(name, len(keys), memory, ours) for (name, ours), (keys, memory) in used.items()]
    in_use = set().union(*(keys for keys, _ in used.values())) if used else set()
    cards = [device.sample for device in picture.devices if not device.sample.mig_enabled]
    return Totals(
        users=tuple(sorted(users, key=lambda user: (not user.ours, -user.memory))),
        free=sum(card.status is Status.OK and card.key not in in_use for card in cards),
        lost=sum(card.status is Status.LOST for card in cards),
        memory=sum(card.memory_total or 0 for card in cards if not card.memory_shared),
    )


def _shares(device: DevicePicture, picture: DevicesPicture) -> list[tuple[str, bool, int]]:
    on_it = [each for each in device.sample.processes if each.compute]
    if not on_it and device.jobs:
        return [(_YOU, True, device.sample.memory_used or 0)]
    strange = {stranger.pid for stranger in device.strangers}
    ours = device.state is not None or device.share.ours
    return [
        (plain(each.user or "?"), bool(ours) and each.pid not in strange and _is_ours(device, picture, each.pid),
         each.memory or 0) for each in on_it
    ]  # fmt: skip


def _is_ours(device: DevicePicture, picture: DevicesPicture, pid: int) -> bool:
    """In a session by its processes, in a monitor where the whole device is this user's."""
    return pid in picture.pids or (device.state is None and not device.share.others)


def below(view: View, room: Room) -> list[PageLine]:
    """Two lines where there is little room, else a table of users beside one of the machine."""
    if room.width < 100 or room.height < 30:
        return [_users_line(view, room.width), _machine_line(view, room.width)]
    half = room.width // 2
    users, machine = _users_table(view, half), _machine_table(view, room.width - half)
    rows = max(len(users), len(machine))
    page_lines: list[PageLine] = []
    for row in range(rows):
        users_row = users[row] if row < len(users) else []
        two = machine[row] if row < len(machine) else []
        page_lines.append((spot(users_row, half, band=not row), spot(two, room.width - half, band=not row)))
    return page_lines


def _users_line(view: View, width: int) -> PageLine:
    all_totals = totals(view.picture)
    pieces = [InkPiece(" Users  ")]
    for user in all_totals.users:
        ink = Ink.TEXT if user.ours else Ink.STRANGER
        pieces += [
            InkPiece(f"{user.name} ", ink, True),
            InkPiece(f"{_cards(user.gpus, view)} {user.memory / _GIB:.0f} G   "),
        ]
    if view.picture.devices:
        pieces.append(InkPiece(f"{all_totals.free} free   ", Ink.PAST))
    if all_totals.lost:
        pieces.append(InkPiece(f"{all_totals.lost} lost", Ink.FAILURE, True))
    return (spot(pieces, width, band=True),)


def _cards(count: int, view: View) -> str:
    if view.picture.host is not None:
        return counted(count, "lane", "lanes")
    return counted(count, "GPU", "GPUs")


def _users_table(view: View, width: int) -> list[list[InkPiece]]:
    all_totals = totals(view.picture)
    bar = max(8, min(24, width - 34))
    lines = [[InkPiece(" Users")]]
    for user in all_totals.users[:3]:
        ink = Ink.TEXT if user.ours else Ink.STRANGER
        lines.append([gap(3), left(user.name, 10, ink), gap(1), left(_cards(user.gpus, view), 8), gap(1),
                      *_part(user.memory, all_totals.memory, bar, Ink.MEMORY if user.ours else Ink.STRANGER),
                      right(f"{user.memory / _GIB:.1f} G", 11)])  # fmt: skip
    if len(all_totals.users) > 3:
        rest = all_totals.users[3:]
        lines[-1].append(InkPiece(f"  +{counted(len(rest), 'user', 'users')}", Ink.PAST))
    last = [gap(3), left("free", 10, Ink.PAST), gap(1), left(_cards(all_totals.free, view), 8, Ink.PAST)]
    if all_totals.lost:
        last += [gap(1), InkPiece(f"{all_totals.lost} lost", Ink.FAILURE, True)]
    return (
        [*lines, last] if view.picture.devices else [*lines, [gap(3), InkPiece("there is no card to have", Ink.PAST)]]
    )


def _part(used: float, total: float, cells: int, ink: Ink) -> list[InkPiece]:
    filled = min(cells, max(used > 0, round(cells * used / total))) if total else 0
    return [InkPiece("━" * filled, ink), InkPiece("─" * (cells - filled), Ink.LINE)]


def _machine_line(view: View, width: int) -> PageLine:
    machine = view.machine
    pieces = [InkPiece(" Host   ")]
    if machine is None:
        return (spot([*pieces, InkPiece("being looked at", Ink.PAST)], width, band=True),)
    busy = "–" if machine.busy is None else f"{machine.busy:.0f} %"
    for name, text in (("CPU", busy), ("RAM", _of(machine.memory_used, machine.memory_total, "/")),
                       ("disk", _of(machine.disk_used, machine.disk_total, "/")), ("load", _load(view))):  # fmt: skip
        pieces += [InkPiece(f"{name} ", Ink.PAST), InkPiece(f"{text}   ")]
    return (spot(pieces, width, band=True),)


def _machine_table(view: View, width: int) -> list[list[InkPiece]]:
    host, sample = view.machine, view.picture.sample
    driver = f"driver {plain(sample.driver)}" if sample is not None and sample.driver else ""
    if host is None:
        return [[InkPiece(" Host  "), InkPiece("being looked at", Ink.PAST)]]
    up = f"up {duration_words(host.up)}" if host.up is not None else ""
    about = ", ".join(word for word in (counted(host.cores, "core", "cores"), up, driver) if word)
    bar = max(8, min(14, width - 40))
    busy = "–" if host.busy is None else f"{host.busy:.0f} % of {counted(host.cores, 'core', 'cores')}"
    swap = f"swap {_size(host.swap_used)}" if host.swap_used is not None else ""
    lines = [
        ("CPU", host.busy or 0.0, 100.0, busy, f"load {_load(view)}"),
        ("RAM", host.memory_used or 0, host.memory_total or 0, _of(host.memory_used, host.memory_total), swap),
        ("disk", host.disk_used or 0, host.disk_total or 0, _of(host.disk_used, host.disk_total),
         plain(host.disk_folder)),
    ]  # fmt: skip
    table = [[InkPiece(" Host  "), InkPiece(about, Ink.PAST)]]
    for name, used, total, text, more in lines:
        table.append([gap(1), left(name, 6, Ink.PAST), *_part(used, total, bar, Ink.MEMORY), gap(2), left(text, 18),
                     gap(1), InkPiece(more, Ink.PAST)])  # fmt: skip
    return table


def _load(view: View) -> str:
    load = view.machine.load if view.machine is not None else None
    return "–" if load is None else f"{load:.1f}"


def _of(used: int | None, total: int | None, joined: str = " of ") -> str:
    if used is None or not total:
        return "–"
    unit, letter, form = (_TIB, "T", ".1f") if total >= 1000 * _GIB else (_GIB, "G", ".0f")
    return f"{used / unit:{form}}{joined}{total / unit:{form}} {letter}"


def _size(count: int) -> str:
    return "0" if count < _GIB / 20 else f"{count / _GIB:.1f} G"
