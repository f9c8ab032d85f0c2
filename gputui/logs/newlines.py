"""Where the newlines of a block of a file are, for the few blocks that are on the screen."""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["BLOCK", "Newlines"]

BLOCK = 1 << 18
KEPT_BLOCKS = 4
"""A block of nothing but newlines takes 2 MB here, so only what a screen shows is kept."""

_NEWLINE = re.compile(b"\n")


class Newlines:
    """Absolute offsets of newlines, block by block."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._kept: OrderedDict[int, tuple[int, array[int]]] = OrderedDict()

    def of(self, block: int, counted: int) -> array[int]:
        """Those before the offset `counted`, up to which the file is known."""
        start = block * BLOCK
        length = min(BLOCK, counted - start)
        kept_block = self._kept.get(block)
        if kept_block is not None and kept_block[0] == length:
            self._kept.move_to_end(block)
            return kept_block[1]
        data = self._read(start, length)
        offsets = array("Q", [match.start() + start for match in _NEWLINE.finditer(data)])
        self._kept[block] = (length, offsets)
        self._kept.move_to_end(block)
        if len(self._kept) > KEPT_BLOCKS:
            self._kept.popitem(last=False)
        return offsets
