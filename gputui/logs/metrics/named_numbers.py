"""Find named numbers in a line of text or in a printed dictionary."""

from __future__ import annotations

import re

from gputui.core.regex import lazy_regex
from gputui.core.results import Direction, direction_of, name_words

from .findings import (
    Counter,
    LineFindings,
    NamedNumber,
    NameKind,
    Token,
    eval_phase,
    is_physical,
    kind_of,
    number_of,
    phase_in,
    tokens_in,
)

_BREAK = lazy_regex(
    r"[,;|│┃║•\t>→]|\s{2,}| -+ |:(?=\s)|[\])](?=\s|\[|\w)|(?<=\w)\[(?=[^\]]*$)"
    r"|(?<=\w{4})\.\s|^\s*[-*#=.]+\s|\.{3,}|(?<!\w)\((?![^()]{1,20}\)\s?$)"
)
_SIGN = lazy_regex(r"(?:\s*(?::=|[:=])|\s+(?:is|reached|to|-+>)|[:=]?\s*)\s*[\[({'\"<]*\s*(?:tensor\(|array\(\[?)?$")
_SIGNED = lazy_regex(r"[:=]|\s(?:is|reached)\s")
_STOP = lazy_regex(
    r".*\b(?:with|from|the|a|an|in|at|by|than|for|after|and|was|value of|using|to|on)\s+(?=\S)", re.IGNORECASE
)
_HEAD = lazy_regex(r"(?P<head>\w[\w@ -]*?)\s+(?:of|on|for|over)\s+(?:the|all|\d|['\"])", re.IGNORECASE)
_IDENTIFIER = lazy_regex(r".*(?<!\S)(?=\S{0,60}\d)(?=\S{0,60}_)\S{12,60}\s+(?=\S)")
"""The name of a run or a file that precedes the name of a number."""
LONGEST_NAME = 60
_DOING = lazy_regex(r"(?:updating|setting|adjusting|reducing|decreasing|changing)\s+(?=\S)", re.IGNORECASE)
_VALUE_WORD = lazy_regex(r"[\s_](?:values?|results?|=)$", re.IGNORECASE)
_PHASE_LEAD = lazy_regex(
    r"(?:^|[\[|]|\bEpoch\(|\bIter\(|\bon\s|\bEvaluating\s)\s*"
    r"(?P<phase>train\w*|val\w*|eval\w*|test\w*|dev|predict\w*|infer\w*|sanity|(?<!\[)cv(?=\s[a-z]))\b(?=[\s\]):|\-\[]|$)",
    re.IGNORECASE,
)
_VALUE_BEFORE = lazy_regex(r"[^\W\d]\s?[:=]\s?-?\d+\.\d")
"""A named value. A phase that is printed after such a value applies only to the numbers after the phase."""
_OLD_BEFORE = lazy_regex(r"(?:\bfrom|\bwas|\bbest|\bnot improve\w*(?: from)?)\s*[:=]?\s*\(?$", re.IGNORECASE)
_CALL = lazy_regex(r"[A-Za-z_][\w.]*\((?=[^()]*=)[^()]*\)")
_QUOTED = lazy_regex(
    r"(['\"`])[^'\"`=\s]*[/.][^'\"`\s]*\1(?!: -?\d)"
    r"|(?<!\S)[^\s/]*/[^\s=]*=(?![-+]?[\d.]+(?:e[-+]?\d+)?[,;)\]]*(?:\s|$))\S*|(?<!\S)\S+\.(?:ckpt|pth?|pkl|safetensors|keras|h5|json|png|bin|onnx|npz)\b"
)
_OPENING_STEP = lazy_regex(r"\s*(?:\[\s*(?P<in>\d{1,9})\]|(?P<out>\d{1,9}):\s)")
_WIDE = lazy_regex(r"\s{3,}")
"""Three or more blanks, which are replaced by two.

Two blanks separate the parts of a line equally well, and the line can be searched much faster.
"""
_FULL_WIDTH = str.maketrans("：，；＝（）％", ":,;=()%")
"""Full-width signs as used in Chinese and Japanese text, with their ASCII equivalents."""
_MARKS = lazy_regex(r"^[^\w(]+")
_APART = lazy_regex(r"\s*([A-Z][a-z]{2,12})\s+\Z")
"""The first word of a name that consists of two columns, as in `Force RMSE : 0.26`."""
_AFTER = lazy_regex(r"\A(?:[\])]\s{0,2}(?=[A-Z]?[a-z]{2,12}ing\b)|, (?=\w{0,20}PerSec=))?\s{0,2}\w*")
_NAME_AFTER = lazy_regex(r"(?P<equals>\s*=)?\s*(?P<name>[^\W\d][\w@ ()-]{1,40}?)\s*(?:[,;|]|$)")
"""A name that follows its number, as in `6.66 avg loss, 0.001 rate`."""
_DECIMAL_COMMA = lazy_regex(r"(?<=[:= ])(?P<whole>\d{1,9}),(?P<part>\d{1,12})(?=\s|[%;]|$)")
_DECIMAL_POINT = lazy_regex(r"\d\.\d")
_UNIT_ALONE = frozenset({"s", "ms", "sec", "seconds", "gb", "mb"})
_PROSE_AFTER = lazy_regex(r"\s+(?!and\b|at\b|in\b|best\b)[a-z]{2,}\s+[a-z]")


def read_line(line: str, findings: LineFindings) -> None:
    """Add the numbers in a line of text to the findings."""
    narrow = _with_points(_WIDE.sub("  ", line if line.isascii() else line.translate(_FULL_WIDTH)))
    text = _WIDE.sub("  ", _QUOTED.sub(lambda match: " " * len(match[0]), _CALL.sub(_blank_call, narrow)))
    _phase_of_line(text, findings)
    begin = 0
    opening = _OPENING_STEP.match(text)
    for token in tokens_in(text):
        gap = text[begin : token.start]
        if opening is not None and token.start <= opening.end() and not begin and not gap.strip(" ["):
            if token.kind == "number" and text[opening.end() :].strip():
                findings.coordinates.append((3, float(opening["in"] or opening["out"])))
        elif token.kind == "counter":
            _counter(gap, token, text, findings)
        elif token.kind == "number":
            if gap.endswith((" on the ", " of the ")):
                continue
            _number(gap, token, text, findings)
        begin = token.end


def _with_points(line: str) -> str:
    """Convert decimal commas to points if the line contains no decimal points."""
    if "," not in line or _DECIMAL_POINT.search(line) is not None:
        return line
    return _DECIMAL_COMMA.sub(_with_point, line)


def _with_point(number: re.Match[str]) -> str:
    thousands = len(number["part"]) == 3 and number["whole"] != "0"
    return number[0] if thousands else f"{number['whole']}.{number['part']}"


def _blank_call(call: re.Match[str]) -> str:
    name = call[0].partition("(")[0]
    return call[0] if kind_of(name) in (NameKind.METRIC, NameKind.RATE, NameKind.COORDINATE) else " " * len(call[0])


def _phase_of_line(text: str, findings: LineFindings) -> None:
    lead = _PHASE_LEAD.search(text[:120])
    if lead is not None and findings.phase is None and _VALUE_BEFORE.search(text, 0, lead.start()) is None:
        findings.phase = lead["phase"].lower()


def _name_in(gap: str) -> tuple[str, bool, str]:
    """Return the name before a number, whether a sign such as `=` is between them, and the text before the name."""
    if gap.rstrip().endswith("=="):
        return "", False, ""  # a required version or a condition
    sign = _SIGN.search(gap)
    body, tail = (gap[: sign.start()], gap[sign.start() :]) if sign is not None else (gap, "")
    signed = _SIGNED.search(f"{tail} ") is not None
    if ("(" in tail or "<" in tail) and not signed:
        return "", False, ""
    cut = 0
    for broken in _BREAK.finditer(body.rstrip()):
        cut = broken.end()
    name = _MARKS.sub("", body[cut:].strip(" '\"([{:=-*#>"))
    if signed and (apart := _APART.match(body, 0, cut)) is not None and kind_of(apart[1]) is NameKind.UNKNOWN:
        name = f"{apart[1]} {name}"
    return name, signed, body[:cut]


def _number(gap: str, token: Token, text: str, findings: LineFindings) -> None:
    value = number_of(token.text)
    name, signed, before = _name_in(gap)
    if (phase := phase_in(name_words(before[-24:])[::-1])) is not None and re.search(r"[\]):]\s*$", before):
        findings.phase = phase
    if not name and value is not None:
        _number_first(token, value, text, findings)
    if not name or value is None:
        return
    printed, name = name, _shortened(name)
    if name != printed and (not signed or name.lower() in _UNIT_ALONE):
        return
    kind = kind_of(name)
    if kind is NameKind.UNKNOWN and gap.rstrip().endswith(" is"):
        return
    if kind is NameKind.COORDINATE:
        if token.unit in ("", ".") and value >= 0:
            findings.coordinate(name, value)
        return
    if kind is NameKind.PHASE and text.startswith(" [", token.end) and token.text.isdigit() and not eval_phase(name):
        findings.coordinate("epoch", value)
        return
    unit = "" if kind is NameKind.METRIC and is_physical(token.unit) else token.unit
    if unit not in ("", "%") or _OLD_BEFORE.search(gap) or not _readable(name, signed, token, text):
        return
    if kind is NameKind.PHASE and findings.named and (base := _base(findings.named[-1].name)):
        name = f"{name} {base}"
    findings.named.append(
        NamedNumber(
            name,
            value,
            signed,
            token.text.lstrip("+-").isdigit() and not token.unit,
            _spoken(findings.phase),
            unit,
        )
    )
    first, _, others = name.partition(" ")
    if others and phase_in(name_words(first)) is not None:
        findings.phase = first.lower().removesuffix("'s").strip(".:")
        findings.named[-1].name, findings.named[-1].phase = others.strip(), findings.phase


def _number_first(token: Token, value: float, text: str, findings: LineFindings) -> None:
    after = _NAME_AFTER.match(text, token.end, token.end + 60)
    if after is None or token.unit or "." not in token.text or kind_of(after["name"]) is not NameKind.METRIC:
        return
    if after["equals"] or text[: token.start].rstrip().endswith((",", ";", "|")):
        findings.named.append(NamedNumber(after["name"].partition(" (")[0].strip(), value))


def _spoken(phase: str | None) -> str | None:
    """Return the phase if it is an evaluation phase or `train`. Other phases are not recorded with a number."""
    return phase if eval_phase(phase) or phase == "train" else None


def _base(name: str) -> str:
    """Return the name without its phase, such as `loss` for `loss train`.

    The next number in the line may have only a phase as its name.
    """
    words = name.split()
    return words[0] if len(words) == 2 and phase_in(name_words(words[1])) is not None else ""


def _shortened(name: str) -> str:
    if len(name) <= 2 * LONGEST_NAME:
        name = _IDENTIFIER.sub("", name)
    head = _HEAD.match(name)
    if head is not None and kind_of(head["head"]) is NameKind.METRIC:
        return head["head"]
    return _VALUE_WORD.sub("", _DOING.sub("", _STOP.sub("", name))).strip(" '\"")


def _readable(name: str, signed: bool, token: Token, text: str) -> bool:
    after = text[token.end : token.end + 40]
    if len(name) > LONGEST_NAME or len(name.split()) > 6 or (after[:1] in "/:" and after[1:2].strip()):
        return False
    if signed:
        return True
    most_words = 5 if text[: token.start].endswith("  ") else 3
    if kind_of(name) not in (NameKind.METRIC, NameKind.RATE) or len(name.split()) > most_words:
        return False
    return _PROSE_AFTER.match(after) is None and token.text.strip("+-") != token.text.strip("+-.") + "."


def _closes(text: str, token: Token, findings: LineFindings) -> bool:
    """Return whether a counter is in brackets at the end of the line and follows a loss.

    This is the case in `loss: 1.87 [38464/60000]` but not in `acc: 0.91 [910/1000]`.
    """
    last = findings.named[-1].name if findings.named else ""
    return text[token.end :].strip() == "]" and direction_of(last) is Direction.DOWN


def _counter(gap: str, token: Token, text: str, findings: LineFindings) -> None:
    name, signed, _ = _name_in(gap)
    done, total = number_of(token.text), number_of(token.total)
    if done is None or total is None or total < 1:
        return
    if name and kind_of(name) is NameKind.METRIC:
        if signed and done <= total:
            findings.named.append(NamedNumber(name, done / total, True, False, findings.phase))
        return
    after = text[token.end : token.end + 40]
    if name and kind_of(name) is NameKind.COORDINATE:
        findings.coordinate(name, done)
    if done <= total and total > 1 and token.unit[:2] in ("", "ep") and not after.startswith("/"):
        noun = token.unit or next(iter(_AFTER.findall(after)), "")
        findings.counters.append(
            Counter(
                f"{gap[-40:]}|{noun}",
                done,
                total,
                opens=not text[: token.start].strip(" [(>"),
                closes=_closes(text, token, findings),
                phase=findings.phase,
            )
        )


# Printed dictionaries


_START = lazy_regex(r"\{\s*['\"]")
_PART = lazy_regex(
    r"""(?P<key>"(?:[^"\\]|\\.){1,80}"|'[^'\\]{1,80}')\s*:\s*
    (?: (?P<open>\{) | (?:[\w.]+\()?\[?['"]?
      (?P<number>-?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf|NaN|Infinity))['"]?(?=\s*[\]),}]) )?
    | (?P<close>\})""",
    re.VERBOSE,
)
_SETTINGS_BEFORE = lazy_regex(
    r"(?:weights|param\w*|config\w*|args|arguments|options|settings|hparams|kwargs)\W*$", re.IGNORECASE
)
_TOTAL = lazy_regex(r"(?:(?:total|max|num|n)_)?(?:train_)?(?P<unit>step|iter|iteration|epoch)s$")
_COUNT = lazy_regex(
    r"['\"][\w/]{0,40}?(?P<unit>step|iter|epoch)[\w/]{0,40}['\"]:\s?['\"](?P<done>\d{1,9})/(?P<total>\d{1,9})['\"]"
)
"""A counter within a dictionary, such as `'global_step/max_steps': '120/870'`."""
_PLAIN_LEVELS = frozenset({"metrics", "metric", "results", "result", "scores", "logs", "data", "values", "summary"})


def mapping_in(line: str) -> tuple[int, int] | None:
    """Return the start and end of the dictionary in a line, or None if there is no complete dictionary."""
    start = _START.search(line)
    end = line.rfind("}")
    return (start.start(), end + 1) if start is not None and end > start.start() else None


def read_mapping(line: str, start: int, end: int, findings: LineFindings) -> None:
    """Add the named numbers of a dictionary to the findings."""
    if _SETTINGS_BEFORE.search(line[:start]) is not None:
        return
    path: list[str] = []
    numbers: dict[str, float] = {}
    for part in _PART.finditer(line, start + 1, end):
        if part["close"]:
            if not path:
                break
            path.pop()
            continue
        key = part["key"][1:-1]
        if part["open"]:
            path.append(key)
        elif part["number"]:
            numbers[key] = number_of(part["number"]) or 0.0
            _add("/".join([*(level for level in path if level not in _PLAIN_LEVELS), key]), part["number"], findings)
    findings.counters += _counters(numbers)
    if (count := _COUNT.search(line, start, end)) is not None and int(count["done"]) <= int(count["total"]) > 1:
        findings.counters.append(Counter(f"{count['unit']} |", float(count["done"]), float(count["total"])))


def _counters(numbers: dict[str, float]) -> list[Counter]:
    """Return the counters in numbers such as `{"step": 300, "total_steps": 1000}`."""
    totals = [(total["unit"], number) for name, number in numbers.items() if (total := _TOTAL.match(name)) is not None]
    counted = [
        (unit, numbers[name], total)
        for unit, total in totals
        for name in (unit, f"global_{unit}", f"current_{unit}s")
        if name in numbers and name != f"{unit}s"
    ]
    return [Counter(f"{unit} |", done, total) for unit, done, total in counted if 0 <= done <= total > 1]


def _add(name: str, text: str, findings: LineFindings) -> None:
    value = number_of(text)
    if value is None:
        return
    if kind_of(name) is NameKind.COORDINATE:
        findings.coordinate(name, value)
    else:
        findings.named.append(NamedNumber(name, value, True, text.lstrip("-").isdigit(), None))
