"""Lines that are no cause: warnings, news of the work, and what is said after a crash because of it."""

from __future__ import annotations

import re

from .cleaning import CleanLine

__all__ = ["is_aftermath", "is_noise", "is_work"]

_FAR_ENOUGH = 300

_BAR = re.compile(r"\d%\|| ?(?:it/s|s/it|B/s)\b|━━━|\[=*>?\.*\] ?- ")
_COUNTED = re.compile(
    r"(?:[\[(]?\d[\d:/. ,T-]{4,30}[\])]?\W{0,4})?(?:\W?(?:INFO|DEBUG)\W{1,10})?"  # a time and a level before it
    r"(?:[\w.<>]{1,40}(?::\S{1,40})? - |\w{1,20}: )?\W{0,3}"  # and a logger
    r"(?:epoch|step|iter(?:ation)?|batch|round|trial|fold|train|val(?:idation)?|eval|test)\w{0,3}\W{0,4}\d",
    re.IGNORECASE,
)
_METRIC = re.compile(
    r"\b[a-z0-9/_]{0,30}(?:[Ll]oss|[Aa]cc[a-z]{0,5}|lr|LR|[Ee]rr(?:or)?s?(?: rate)?|eta|ETA|mem|ppl"
    r"|[Ss]core|[Rr]eward)\s?[=: ]\s?-?\d"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_MOST_WORDS_OF_FIGURES = 5
_GOES_ON = re.compile(
    r"\b(?:retry(?:ing)?|try(?:ing)? again|falling back|fallback to|continuing|skipp?(?:ed|ing)|resum(?:ed|ing)"
    r"|reconnected|recovered|reducing|using .{1,40} instead)\b",
    re.IGNORECASE,
)

_WARNING = re.compile(
    r"(?:[^\s:]{1,200}:\d{1,7}: )?\w{0,40}Warning:|.{0,80}\b(?:WARN(?:ING)?|INFO|DEBUG|TRACE)\b|.{0,60}\bwarning:"
    r"|[IWD]\d{4} |\[[IWD] ?\d|\[\w{1,20} @ 0x|E\d{4} \d\d:\d\d:\d"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] |[\w/.-]{1,40}: (?:Currently|Tracking|Run data|The current process)"
)
_CHATTER = re.compile(
    r"wandb: |Some weights of |You should probably TRAIN|To disable this warning|To avoid this warning|Corrupt JPEG"
    r"|[Dd]ownload(?:ing|ed) |[Ll]oad(?:ing|ed) |Using (?:a |the )?(?:device|cache|GPU|backend)"
    r"|.{0,200}(?:deprecated|leaked (?:semaphore|shared_memory)|Setting OMP_NUM_THREADS|Unable to register cu)"
    r"|.{1,200}\.\.\.$|Namespace\(|Cloning into|\+{1,4} \S"
    r"|(?:Execution halted|Stacktrace:|Calls: |Aborting\.?$|(?:Good)?[Bb]ye)"
)

_AFTERMATH = re.compile(
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
    """The line shows that the program went on with what it had to do."""
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
    """The line is no error: news, warnings, and lines that only go on from such ones."""
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
    """A line of figures; a sentence may have one, too."""
    figures = len(_METRIC.findall(text, 0, _FAR_ENOUGH))
    return figures > 1 or (figures == 1 and len(_WORD.findall(text, 0, _FAR_ENOUGH)) <= _MOST_WORDS_OF_FIGURES)


def is_aftermath(text: str) -> bool:
    """The line is what launchers, shells and batch systems say of a program that had failed already."""
    return _AFTERMATH.match(text) is not None
