"""Immutable list and packed mapping, cheap to change when they are long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

# ---- An immutable list ----


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


# ---- An immutable mapping from ids to structs that are kept packed ----


class PackedMap(Mapping[int, T], Generic[T]):
    """Reading unpacks, in microseconds; ids may be sparse, but should be near each other."""

    __slots__ = ("_codec", "_count", "_first", "_packed")

    def __init__(self, kind: type[T], first: int = 0) -> None:
        self._codec = (msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(kind).decode)
        self._first, self._count = first, 0
        self._packed: Vector[bytes | None] = Vector()

    def __getitem__(self, key: int) -> T:
        packed = self._at(key)
        if packed is None:
            raise KeyError(key)
        return self._codec[1](packed)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self._at(key) is not None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (number for number, packed in enumerate(self._packed, self._first) if packed is not None)

    def _at(self, key: int) -> bytes | None:
        place = key - self._first
        return self._packed[place] if 0 <= place < len(self._packed) else None

    def packed(self, key: int) -> bytes | None:
        """As it is kept, for whoever needs only a part of it."""
        return self._at(key)

    def changed_since(self, earlier: PackedMap[T]) -> Iterator[int]:
        """The ids whose value is another one than there, or not there; costs what differs, not the length."""
        same_places = earlier._first == self._first and len(earlier._packed) <= len(self._packed)
        before: Vector[bytes | None] = earlier._packed if same_places else Vector()
        return (self._first + place for place in self._packed.changed_since(before))

    def with_packed(self, values: Mapping[int, bytes | None]) -> PackedMap[T]:
        """With values that are packed already, as a store kept them; None takes one out."""
        longest = max((key - self._first + 1 for key in values), default=0)
        entered = [*self._packed, *[None] * (longest - len(self._packed))]
        for key, value in values.items():
            entered[key - self._first] = value
        return self._with(Vector(entered), len(entered) - entered.count(None))

    def set_all(self, values: Mapping[int, T | None]) -> PackedMap[T]:
        """With these in the place of what was there; None takes one out. No id is below the first."""
        packed, count = self._packed, self._count
        longest = max((key - self._first + 1 for key in values), default=0)
        if longest > len(packed):
            packed = packed.extend([None] * (longest - len(packed)))
        if len(values) * 8 > len(packed):  # packing all anew is cheaper than a path for each
            return self._with(*self._anew(packed, values))
        for key, value in values.items():
            place = key - self._first
            entered = None if value is None else self._codec[0](value)
            count += (entered is not None) - (packed[place] is not None)
            packed = packed.set(place, entered)
        return self._with(packed, count)

    def _anew(self, packed: Vector[bytes | None], values: Mapping[int, T | None]) -> tuple[Vector[bytes | None], int]:
        entered = list(packed)
        for key, value in values.items():
            entered[key - self._first] = None if value is None else self._codec[0](value)
        return Vector(entered), len(entered) - entered.count(None)

    def _with(self, packed: Vector[bytes | None], count: int) -> PackedMap[T]:
        other: PackedMap[T] = object.__new__(PackedMap)
        other._codec, other._first, other._packed, other._count = self._codec, self._first, packed, count
        return other
