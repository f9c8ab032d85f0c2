"""The line on which a key of a TOML text stands, for messages; the standard library's reader does not tell."""

from __future__ import annotations

import re

__all__ = ["line_of"]

_TABLE = re.compile(r"\s*(\[{1,2})\s*([^\]]+?)\s*\]{1,2}\s*(?:#.*)?")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w-]+)\s*[=.]""")


def line_of(text: str, place: tuple[str | int, ...]) -> int | None:
    """Of the key at this place, or of its table's header; a guess, good enough to find it by."""
    wanted = [str(step) for step in place]
    counts: dict[str, int] = {}
    table: list[str] = []
    inside: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        inside, was_inside = _multi_line(line, inside), inside is not None
        if was_inside:
            continue
        header = _TABLE.fullmatch(line)
        if header:
            table = _entered(header[2], counts, is_list=header[1] == "[[")
            if wanted in (table, table[:-1] if header[1] == "[[" else table):
                return number
        elif (key := _KEY.match(line)) and [*table, key[1].strip("\"'")] == wanted:
            return number
    return None


def _entered(name: str, counts: dict[str, int], *, is_list: bool) -> list[str]:
    """The place that a header leads to: `[[job]]` a second time is job, 1."""
    place: list[str] = []
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for depth, part in enumerate(parts, start=1):
        place.append(part)
        key = "\0".join(place)
        if is_list and depth == len(parts):
            counts[key] = counts.get(key, -1) + 1
        if key in counts:
            place.append(str(counts[key]))
    return place


def _multi_line(line: str, inside: str | None) -> str | None:
    """The quotes of a text that goes on after this line, if there is one."""
    rest = line
    while True:
        if inside is not None:
            _, closing, rest = rest.partition(inside)
            if not closing:
                return inside
            inside = None
        places = [(place, quotes) for quotes in ('"' * 3, "'" * 3) if (place := rest.find(quotes)) >= 0]
        if not places:
            return None
        place, inside = min(places)
        rest = rest[place + 3 :]
