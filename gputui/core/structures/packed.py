"""An immutable mapping from ids to structs that are kept packed: a hundred thousand cost little memory, changing one
costs a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from .vector import Vector

T = TypeVar("T")


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
