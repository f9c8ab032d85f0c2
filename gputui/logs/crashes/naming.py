"""Of a message of many lines, the one line to be shown: the first, and with it the one below that names things."""

from __future__ import annotations

import re

from .cleaning import CleanLine
from .traces import Trace

__all__ = ["device_assertion", "named"]

# First lines that only announce what a line below them says.
_PREAMBLE = re.compile(r"while (?:scanning|parsing|constructing)\b|.{0,1000}:$")
_ONLY_COUNTS = re.compile(r"\d{1,6} (?:\w{1,30} )?errors? (?:for|in|found)\b.{0,200}$")
_TELLS = re.compile(r"OOM when allocating|Last error:$")
_RULE = " \t=-~^*#"
_ASSERTION = re.compile(r".{0,200}?\.cuh?:\d+: .{0,400}Assertion .{1,300} failed")
_GENERIC_ASSERT = "device-side assert"


def named(trace: Trace, lines: list[CleanLine]) -> str:
    """The exception in one line that says which, where and how much."""
    text = trace.text
    if not trace.said and trace.statement.startswith("assert"):
        return f"{text.rstrip(': ')}: {trace.statement}"
    if _GENERIC_ASSERT in text and (above := device_assertion(lines)):
        return f"{text}: {above[above.index('Assertion') :]}"
    below = _below(trace)
    return f"{text} {below}" if below else text.rstrip(": ")


def device_assertion(lines: list[CleanLine]) -> str:
    """The assertion that a kernel failed: it is printed by each thread, long before anybody notices."""
    for line in reversed(lines):
        if "Assertion" in line.text and _ASSERTION.match(line.text):
            return line.text.strip()
    return ""


def _below(trace: Trace) -> str:
    block = [text for text in trace.block if text.strip(_RULE)]
    for index, text in enumerate(block):
        if _TELLS.match(text):
            return " ".join(block[index : index + 2]) if text.endswith(":") else text
    if _ONLY_COUNTS.match(trace.said):
        return " ".join(block[:2])
    if not trace.said:
        return " ".join(block[: 2 if block[:1] and block[0].endswith(":") else 1])
    if block and _PREAMBLE.match(trace.said):
        return next((text for text in block if not text.endswith(":")), block[0])
    return ""
