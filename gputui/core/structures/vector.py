"""An immutable list: changing one element gives a new list that shares all but one path with the old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

BITS = 5
WIDTH = 1 << BITS
MASK = WIDTH - 1

Node = tuple[Any, ...]  # of nodes, or of elements at the lowest level


class Vector(Generic[T]):
    """A tree of small tuples; reading, setting and appending cost its depth (4 for a million elements)."""

    __slots__ = ("_length", "_root", "_shift")

    def __init__(self, items: Iterable[T] = ()) -> None:
        level: list[Any] = list(items)
        self._length = len(level)
        self._shift = 0
        level = _packed(level)
        while len(level) > 1:
            level = _packed(level)
            self._shift += BITS
        self._root: Node = level[0] if level else ()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < self._length:
            raise IndexError(index)
        node: Any = self._root
        shift = self._shift
        while shift >= 0:
            node = node[(index >> shift) & MASK]
            shift -= BITS
        return node  # type: ignore[no-any-return]  # the last level holds elements

    def __iter__(self) -> Iterator[T]:
        return _leaves(self._root, self._shift)

    def set(self, index: int, value: T) -> Vector[T]:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._with(_set(self._root, self._shift, index, value), self._shift, self._length)

    def append(self, value: T) -> Vector[T]:
        root, shift = self._root, self._shift
        if self._length == 1 << (shift + BITS):
            root, shift = (root,), shift + BITS
        return self._with(_set(root, shift, self._length, value), shift, self._length + 1)

    def extend(self, values: Iterable[T]) -> Vector[T]:
        more = list(values)
        if len(more) * WIDTH > self._length:  # packing all anew is cheaper than a path for each
            return Vector([*self, *more])
        longer = self
        for value in more:
            longer = longer.append(value)
        return longer

    def changed_since(self, earlier: Vector[T]) -> Iterator[int]:
        """The places whose element is another one than there, or new; costs what differs, not the length."""
        old: Any = earlier._root
        for _ in range(earlier._shift, self._shift, BITS):
            old = (old,)
        yield from _differing(self._root, old, self._shift, 0)

    def _with(self, root: Node, shift: int, length: int) -> Vector[T]:
        other: Vector[T] = object.__new__(Vector)
        other._root, other._shift, other._length = root, shift, length
        return other


def _packed(level: list[Any]) -> list[Node]:
    return [tuple(level[start : start + WIDTH]) for start in range(0, len(level), WIDTH)]


def _set(node: Node, shift: int, index: int, value: object) -> Node:
    place = (index >> shift) & MASK
    if shift:
        value = _set(node[place] if place < len(node) else (), shift - BITS, index, value)
    return (*node[:place], value, *node[place + 1 :])


def _differing(node: Node, old: Node, shift: int, first: int) -> Iterator[int]:
    if node is old:
        return
    for place, child in enumerate(node):
        before = old[place] if place < len(old) else ()
        if shift == 0:
            if place >= len(old) or child is not before:
                yield first + place
        elif child is not before:
            yield from _differing(child, before, shift - BITS, first + (place << shift))


def _leaves(node: Node, shift: int) -> Iterator[Any]:
    if shift == 0:
        yield from node
        return
    for child in node:
        yield from _leaves(child, shift - BITS)
