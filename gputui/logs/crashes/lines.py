"""Read the last lines of a log, without colors and prefixes, and detect lines that are noise."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputui.core.regex import lazy_regex
from gputui.logs.plain import plain, without_escapes

_LONGEST_LINE = 1000
_MOST_LINES = 2000

# Launchers put such a mark before each line, to say which process printed it.
_MARK = lazy_regex(
    r"\[(?P<rank>(?:rank|default)\d{1,5})\]:\ ?"
    r"|\[\d{1,5},(?P<mpi>\d{1,5})\]<std(?:err|out)>:\ ?"
    r"|\((?:[\w.]{1,60}\ )?pid=(?P<pid>\d{1,9})[^)]{0,80}\)\ ",
)
_TRACEBACK = lazy_regex(r"(?P<prefix>.{0,160}?)(?:  \+ Exception Group )?Traceback \(most recent call last\)")
_LABEL = lazy_regex(r"\s*([\w.-]{1,60}):\s*")
_DIGITS = lazy_regex(r"\d+")
_MOST_PREFIXES = 8
_GROUP_MARGIN = lazy_regex(r"\s*+(?:\|(?: |$)|\+ (?=Exception Group)|\+[-+]{1,40}+(?: [\d.]+ (?=-)|(?=-*$)))")


class CleanLine(NamedTuple):
    text: str
    source: str = ""
    """Rank or process that printed the line, according to a launcher."""
    rewritten: bool = False
    """Whether the line was drawn repeatedly, as a progress bar is."""


def cleaned(tail: bytes) -> list[CleanLine]:
    text = tail.decode("utf-8", "replace")
    if "\x1b" in text or not text.isascii():
        text = without_escapes(text)
    lines = [_line(raw) for raw in text.split("\n")[-_MOST_LINES:]]
    if (prefix := _prefix_of_traces(lines)) is not None:
        lines = [_without_prefix(line, prefix) for line in lines]
    return [_without_margin(line) for line in lines] if "Exception Group Traceback" in text else lines


def _prefix_of_traces(lines: list[CleanLine]) -> re.Pattern[str] | None:
    """Return a pattern for the prefix that a launcher or logger adds to each line of a traceback.

    Numbers in the prefix may vary.
    """
    shapes: dict[str, bool] = {}  # for each prefix: whether the next line has it, too
    for index in range(len(lines) - 1, -1, -1):
        source, text = lines[index].source, lines[index].text
        if "Traceback (most" not in text or (trace := _TRACEBACK.match(text)) is None:
            continue
        prefix = trace["prefix"].strip()
        below = next((line.text for line in lines[index + 1 : index + 4] if line.source == source), "")
        if 'File "' in below and any(map(str.isalnum, prefix)) and len(shapes) < _MOST_PREFIXES:
            shape = _DIGITS.sub(r"\\d+", re.escape(prefix))
            framed = re.match(rf"\s{{0,4}}{shape}[ |]{{2,40}}File \"", below) is not None
            shapes[f"{shape}(?: |$)" if trace["prefix"].endswith(" ") else shape] = framed
    found = [shape for shape, framed in shapes.items() if framed]
    return re.compile(rf"\s{{0,4}}(?:{'|'.join(found)})") if found else None


def _without_prefix(line: CleanLine, prefix: re.Pattern[str]) -> CleanLine:
    found = prefix.match(line.text)
    if found is None:
        return line
    label = _LABEL.fullmatch(found[0])
    return line._replace(text=line.text[found.end() :], source=label[1] if label is not None else line.source)


def _line(raw: str) -> CleanLine:
    rewritten = False
    if not raw.isprintable():
        before, _, raw = raw.rstrip("\r \t").rpartition("\r")
        rewritten = before.count("\r") > 1
        raw = plain(raw[:_LONGEST_LINE].replace("\t", "    "))
    text = raw[:_LONGEST_LINE].rstrip()
    if text.startswith(("[", "(")) and (mark := _MARK.match(text)):
        return CleanLine(text[mark.end() :], mark["rank"] or mark["mpi"] or mark["pid"], rewritten)
    return CleanLine(text, "", rewritten)


def _without_margin(line: CleanLine) -> CleanLine:
    margin = _GROUP_MARGIN.match(line.text)
    return line._replace(text=line.text[margin.end() :]) if margin else line


def mentioned(lines: list[CleanLine], marks: tuple[str, ...]) -> bool:
    """Return whether any of the marks occurs in the lines. This fast test is sufficient for most logs."""
    text = "\n".join([line.text for line in lines])
    return any(mark in text for mark in marks)


# Lines that cannot be the cause of a failure


_FAR_ENOUGH = 300

_BAR = lazy_regex(r"\d%\|| ?(?:it/s|s/it|B/s)\b|━━━|\[=*>?\.*\] ?- ")
_COUNTED = lazy_regex(
    r"(?:[\[(]?\d[\d:/. ,T-]{4,30}[\])]?\W{0,4})?(?:\W?(?:INFO|DEBUG)\W{1,10})?"  # an optional time and level
    r"(?:[\w.<>]{1,40}(?::\S{1,40})? - |\w{1,20}: )?\W{0,3}"  # an optional logger
    r"(?:epoch|step|iter(?:ation)?|batch|round|trial|fold|train|val(?:idation)?|eval|test)\w{0,3}\W{0,4}\d",
    re.IGNORECASE,
)
_METRIC = lazy_regex(
    r"\b[a-z0-9/_]{0,30}(?:[Ll]oss|[Aa]cc[a-z]{0,5}|lr|LR|[Ee]rr(?:or)?s?(?: rate)?|eta|ETA|mem|ppl"
    r"|[Ss]core|[Rr]eward)\s?[=: ]\s?-?\d"
)
_WORD = lazy_regex(r"[^\W\d_]{2,}")
_MOST_WORDS_OF_FIGURES = 5
_GOES_ON = lazy_regex(
    r"\b(?:retry(?:ing)?|try(?:ing)? again|falling back|fallback to|continuing|skipp?(?:ed|ing)|resum(?:ed|ing)"
    r"|reconnected|recovered|reducing|using .{1,40} instead)\b",
    re.IGNORECASE,
)

_WARNING = lazy_regex(
    r"(?:[^\s:]{1,200}:\d{1,7}: )?\w{0,40}Warning:|.{0,80}\b(?:WARN(?:ING)?|INFO|DEBUG|TRACE)\b|.{0,60}\bwarning:"
    r"|[IWD]\d{4} |\[[IWD] ?\d|\[\w{1,20} @ 0x|E\d{4} \d\d:\d\d:\d"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] |[\w/.-]{1,40}: (?:Currently|Tracking|Run data|The current process)"
)
_CHATTER = lazy_regex(
    r"wandb: |Some weights of |You should probably TRAIN|To disable this warning|To avoid this warning|Corrupt JPEG"
    r"|[Dd]ownload(?:ing|ed) |[Ll]oad(?:ing|ed) |Using (?:a |the )?(?:device|cache|GPU|backend)"
    r"|.{0,200}(?:deprecated|leaked (?:semaphore|shared_memory)|Setting OMP_NUM_THREADS|Unable to register cu)"
    r"|.{1,200}\.\.\.$|Namespace\(|Cloning into|\+{1,4} \S"
    r"|(?:Execution halted|Stacktrace:|Calls: |Aborting\.?$|(?:Good)?[Bb]ye)"
)

_AFTERMATH = lazy_regex(
    r"wandb: |.{0,200}resource_tracker|\s+warnings\.warn\(|srun: "
    r"|slurmstepd: error: \*\*\* \w+ \S+ ON \S+ CANCELLED AT \S+ \*\*\*$|make(?:\[\d+\])?: |MPI_ABORT was invoked"
    r"|(?:mpirun|mpiexec|Primary job|prterun)\b|ninja: build stopped|collect2: error: ld returned"
    r"|error: (?:command .{1,300} failed|subprocess-exited)|Command exited with|NOTE: invoking MPI_ABORT"
    r"|You may or may not see output|exactly when Open MPI|with errorcode|\s*Proc: \[\[|\s*Errorcode:|[-=*]{8,}$"
    r"|Terminated$|.{0,80}\d+ Terminated\b|Run '.{1,60}--help'|Try '.{1,60}--help'|Caused by: "
    r"|.{0,120}(?:elastic/multiprocessing|elastic\.multiprocessing|Sending process \d+ closing signal)"
    r"|E\d{4} .{0,200}(?:failed \(exitcode|error_handler)|Set the environment variable HYDRA_FULL_ERROR"
    r"|Error executing job with|Node\.js v|tar: E(?:rror is not|xiting with)|Compilation (?:failed|terminated)"
    r"|\d+ errors? (?:detected|generated)|.{0,10}Process completed with exit code"
    r"|\[signal SIG[A-Z]{2,8}: |rsync error: "
)


def is_work(line: CleanLine) -> bool:
    """Return whether a line shows that the program continued its work."""
    text = line.text
    if not text or is_aftermath(text):
        return False
    if _BAR.search(text, 0, _FAR_ENOUGH):
        return line.rewritten
    return bool(
        (_COUNTED.match(text) and _METRIC.search(text, 0, _FAR_ENOUGH))
        or _COUNTED.fullmatch(text)
        or _GOES_ON.search(text, 0, _FAR_ENOUGH)
    )


def is_noise(line: CleanLine) -> bool:
    """Return whether a line is not an error but information, a warning, or a continuation of either."""
    text = line.text
    return bool(
        not text.strip()
        or line.rewritten
        or _BAR.search(text, 0, _FAR_ENOUGH)
        or _COUNTED.match(text)
        or _is_measured(text)
        or _WARNING.match(text)
        or _CHATTER.match(text)
    )


def _is_measured(text: str) -> bool:
    """Return whether a line consists only of metrics. A sentence that contains a metric does not count."""
    figures = len(_METRIC.findall(text, 0, _FAR_ENOUGH))
    return figures > 1 or (figures == 1 and len(_WORD.findall(text, 0, _FAR_ENOUGH)) <= _MOST_WORDS_OF_FIGURES)


def is_aftermath(text: str) -> bool:
    """Return whether a launcher, shell or batch system printed the line, about a program that had already failed."""
    return _AFTERMATH.match(text) is not None


# The last words of a program without an error message


_REGRET = lazy_regex(
    r"\b(?:nan|inf|infinite|diverged?|abort\w*|stop(?:ped|ping)?|exit(?:ed|ing)?|fail(?:ed|ure|s)?|cannot|can't"
    r"|could not|couldn't|unable|invalid|missing|not found|no such|giving up|gave up|refus\w+|denied|unknown"
    r"|unsupported|nothing"
    r"|must (?:be|not)|too (?:many|few|small|large)|out of|expected|quitting|terminat\w+|not enough|does not"
    r"|doesn't|crash\w*)\b",
    re.IGNORECASE,
)
_FAREWELL = lazy_regex(r"\b(?:giving up|stopping|exiting|quitting|aborting|terminating|bailing out)\b", re.IGNORECASE)
_OF_THE_TRACE = lazy_regex(
    r"\b(?:fail\w*|error\w*|exception\w*|cannot|can't|could not|couldn't|unable|crash\w*|caught|above|see)\b",
    re.IGNORECASE,
)
_VALUES = lazy_regex(r"[{\[].*[}\]]\s*$")
"""A line that consists of printed values in brackets.

Some programs print a reason for stopping, and below it the values that made them stop.
"""
_FEWEST_WORDS_OF_A_REASON = 3
_RULE = lazy_regex(r"[-=*]{40,}$")
_TALLEST_BOX = 40


def last_words(lines: list[CleanLine], meant_for_errors: bool, claimed: frozenset[int]) -> str | None:
    """Return the last line if it is a sentence. In OUT, it must also contain a word such as `cannot` or `stopped`."""
    if said := _between_rules(lines):
        return said
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if not line.text.strip() or is_aftermath(line.text) or _VALUES.match(line.text):
            continue
        if index in claimed or is_noise(line) or line.text[0] == " " or len(_WORD.findall(line.text[:200])) < 2:
            return None
        return line.text if meant_for_errors or _REGRET.search(line.text) else None
    return None


def _between_rules(lines: list[CleanLine]) -> str | None:
    """Return the first paragraph of a notice between two rules at the end of the log, as printed by MPI."""
    texts = [line.text for line in lines[-_TALLEST_BOX:]]
    while texts and not texts[-1].strip():
        texts.pop()
    rules = [index for index, text in enumerate(texts) if _RULE.match(text)]
    if len(rules) < 2 or rules[-1] != len(texts) - 1 or is_aftermath(texts[rules[-2] + 1]):
        return None
    inside = texts[rules[-2] + 1 : rules[-1]]
    paragraph = inside[: inside.index("")] if "" in inside else inside
    return " ".join(text.strip() for text in paragraph) or None


def farewell(lines: list[CleanLine]) -> str | None:
    """Return the last line if it gives another reason for the end than the traceback above."""
    text = next((line.text for line in reversed(lines) if line.text.strip() and not is_aftermath(line.text)), "")
    if text.startswith(" ") or not _FAREWELL.search(text) or _OF_THE_TRACE.search(text):
        return None
    return text if len(_WORD.findall(text[:200])) > _FEWEST_WORDS_OF_A_REASON else None
