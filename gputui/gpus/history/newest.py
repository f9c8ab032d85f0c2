"""The newest part of a history, for whoever has the rest already: two weeks of eight cards are not sent again. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from .tracks import LEVELS, DeviceHistories, HistoryLevel, Track


def newest_of(now: DeviceHistories, before: DeviceHistories) -> DeviceHistories | None:
    """What `with_newest` makes `now` of; None: it is no continuation, as after a clock was set back."""
    tracks: dict[str, tuple[Track, ...]] = {}
    for key, several in now.tracks.items():
        had = before.tracks.get(key, ())
        if len(had) != len(several) or any(new.last < old.last for new, old in zip(several, had, strict=True)):
            return None
        tracks[key] = tuple(_newest(new, old) for new, old in zip(several, had, strict=True))
    return replace(now, tracks=tracks)


def with_newest(before: DeviceHistories, newest: DeviceHistories) -> DeviceHistories:
    tracks = {
        key: tuple(_joined(*each) for each in zip(LEVELS, before.tracks[key], several, strict=False))
        for key, several in newest.tracks.items()
    }
    return replace(newest, tracks=tracks)


def _newest(new: Track, old: Track) -> Track:
    """From the slot that was the newest then, which may have changed since."""
    count = new.last - old.last + 1
    load, owner, ours, others = (figure[-count:] for figure in new.figures)
    return Track(new.last, (load, owner, ours, others))


def _joined(level: HistoryLevel, old: Track, newest: Track) -> Track:
    pairs = zip(old.figures, newest.figures, strict=True)
    load, owner, ours, others = ((had[:-1] + came)[-level.slots :] for had, came in pairs)
    return Track(newest.last, (load, owner, ours, others))
