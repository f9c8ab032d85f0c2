"""Values mean what users expect, and invalid ones get a message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.settings import SETTINGS, settings_in
from gputui.sources.values import BadValue, boolean, bytes_or_share, count, duration, text, words

priority = SETTINGS["priority"].read

Reader = Callable[[str], object]
VALID: list[tuple[Reader, Mapping[str, object]]] = [
    (duration, {"90": 90, "90s": 90, "5m": 300, "2h": 7200, "1d": 86400, "1.5h": 5400, "1h30m": 5400, "0": 0,
                " 2H ": 7200, "0.5": 0.5, "1d2h3m4s": 93784}),
    (priority, {"0": 0, "99": 99, " 30 ": 30, "+5": 5}),
    (partial(count, highest=8), {"0": 0, "8": 8}),
    (boolean, dict.fromkeys(("yes", "TRUE", "on", "1"), True) | dict.fromkeys(("no", "False", "off", "0"), False)),
    (text, {" a b ": "a b"}),
    (words, {"a, b,c": ("a", "b", "c")}),
    (bytes_or_share, {"6G": (6 << 30, None), "500M": (500 << 20, None), "1.5GiB": (1536 << 20, None),
                      "40%": (None, 0.4)}),
]  # fmt: skip
INVALID: list[tuple[Reader, str, list[str]]] = [
    (duration, "write|too long", ["", "s", "-5", "5x", "5 m", "1h30", "1e3", "inf", "nan", "5m!", "٣", "1.", "99999d",
                                  "9" * 500]),
    (priority, "0 to 99", ["100", "-1", "high", "", "1.5", "1_0", "٣", "9" * 500]),
    (boolean, "use yes or no", ["", "maybe", "2", "y e s"]),
    (text, "set a value|remove it", ["", "  ", "a\x1bb", "a\nb"]),
    (words, "set a value|extra comma", ["", ",", "a,", "a,,b"]),
    (bytes_or_share, "write|between|omit", ["", "6", "G", "-1G", "0G", "0%", "140%", "6 apples", "1e9G"]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "written", "value"), [(read, *each) for read, all in VALID for each in all.items()])
def test_values_are_parsed(read: Reader, written: str, value: object) -> None:
    assert read(written) == value


@pytest.mark.parametrize(
    ("read", "hint", "written"), [(read, hint, each) for read, hint, all in INVALID for each in all]
)
def test_invalid_values_are_refused_with_what_to_do(read: Reader, hint: str, written: str) -> None:
    with pytest.raises(BadValue, match=hint):
        read(written)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_gets_a_printable_message(written: str) -> None:
    for read in (duration, priority, count, boolean, text, words):
        try:
            read(written)
        except BadValue as bad:
            message = str(bad)
            if not message.isprintable():
                raise


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("retry_on=oom,sginal", "retry_on: unknown failure 'sginal'; did you mean signal?"),
        ("retry_on=exit:0", "retry_on: 0 is out of range; use 1 to 255"),
        ("retry_on=exit:abc", "retry_on: 'abc' is not a whole number; write one from 1 to 255"),
        ("retry_on=lost", "retry_on: unknown failure 'lost'; known: oom, signal, node, timeout"),
        ("on_oom=larger", "on_oom: unknown value 'larger'; known: alone, bigger, fail"),
        ("on_hang=kil", "on_hang: unknown value 'kil'; did you mean kill?"),
        ("hang_after=soon", "hang_after: 'soon' is not a duration"),
        ("memory=lern", "memory: 'lern' is not a size"),
        ("checkpoint=maybe", "checkpoint: invalid value 'maybe': use yes or no"),
    ],
)
def test_invalid_settings_are_refused_with_their_name(line: str, message: str) -> None:
    with pytest.raises(BadValue) as bad:
        settings_in(line)
    assert str(bad.value).startswith(message)
