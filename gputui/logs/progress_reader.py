"""How far each running job is, read again only when the job has written something."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from .progress import Progress, progress_of
from .tail import read_tail

__all__ = ["ProgressReader"]

TAIL = 8192
MOST_FILES = 512


@dataclass(frozen=True, slots=True)
class _Seen:
    size: int
    modified: int
    inode: int
    progress: Progress | None


class ProgressReader:
    """Looks at the last few KiB of a job's two files."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Path, _Seen] = OrderedDict()

    def read(self, out: Path, err: Path | None) -> Progress | None:
        """What counts epochs is about the whole job; otherwise the file that was written last knows best."""
        looks = [look for path in (out, err) if path is not None and (look := self._look(path)) is not None]
        progresses = [
            (look.progress.whole, look.modified, look.progress) for look in looks if look.progress is not None
        ]
        return max(progresses, key=lambda entry: entry[:2])[2] if progresses else None

    def _look(self, path: Path) -> _Seen | None:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        looked_at = self._seen.get(path)
        now = (status.st_size, status.st_mtime_ns, status.st_ino)
        if looked_at is None or (looked_at.size, looked_at.modified, looked_at.inode) != now:
            looked_at = _Seen(*now, progress_of(read_tail(os.fspath(path), TAIL)))
            self._seen[path] = looked_at
        self._seen.move_to_end(path)
        if len(self._seen) > MOST_FILES:
            self._seen.popitem(last=False)
        return looked_at
