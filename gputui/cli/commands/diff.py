"""`gputui diff`: compare the code, parameters, settings and environment of two jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gputui.cli.command import find_session
from gputui.cli.output import OutputFormat, print_answer, refuse
from gputui.cli.parser import Options, Parser
from gputui.core.job import JobId
from gputui.logs.plain import plain
from gputui.session.code_snapshots import GitError, code_diff
from gputui.session.messages import ShownJob
from gputui.sources.settings import SETTINGS
from gputui.sources.source import settings_of
from gputui.views.format import masked

from .show import show

Change = tuple[str | None, str | None]
"""The values of the two jobs. None means that the job has no such value."""


class JobsDiff(Struct, frozen=True):
    """How two jobs differ. The environment omits values that look like secrets."""

    jobs: tuple[JobId, JobId]
    settings: dict[str, Change]
    params: dict[str, Change]
    environment: dict[str, Change]
    code: str | None
    """The difference in the form of `git diff`, or None if one of the jobs has no snapshot of its code."""


ANSWERS = {"diff": JobsDiff}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Compare two jobs: their commands, parameters, settings and environments, and their code if both were added "
        "with --snapshot. Values that look like secrets are not shown.",
        usage="diff JOB JOB [--stat] [--json]",
        examples="gputui diff 12 15\ngputui diff 12 15 --stat\ngputui diff baseline 15 --json",
    )
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="two jobs, by id or name")
    parser.switch("--stat", help="of the code, only the names of the files that differ")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    if len(options.jobs) != 2:
        refuse("name two jobs: gputui diff 12 15")
    client = find_session(options)
    before, after = (show(client, word, environment=True) for word in options.jobs)
    found = _diff(client.root, before, after, stat=options.stat)
    return print_answer(lambda: found, lambda fmt: _describe(found, before, after, fmt))


def _diff(root: str, before: ShownJob, after: ShownJob, *, stat: bool) -> JobsDiff:
    code, other = before.spec.code, after.spec.code
    try:
        text = code_diff(root, code, other, stat=stat) if code is not None and other is not None else None
    except GitError as error:
        refuse(f"cannot compare the code: {error}")
    environments = [_environment(job) for job in (before, after)]
    return JobsDiff(
        (before.id, after.id),
        _changes(*map(_settings, (before, after))),
        _changes(before.spec.params, after.spec.params),
        {
            name: (old and masked(name, old), new and masked(name, new))
            for name, (old, new) in _changes(*environments).items()
        },
        text,
    )


def _settings(job: ShownJob) -> dict[str, str]:
    settings = settings_of(job.spec)
    values = {
        key: getattr(settings, setting.field) for key, setting in SETTINGS.items() if key not in ("env", "snapshot")
    }
    written = {key: SETTINGS[key].write(value) for key, value in values.items() if value is not None}
    return {"command": job.spec.command, **written}


def _environment(job: ShownJob) -> dict[str, str]:
    return {**(job.environment or {}), **job.spec.variables}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Change]:
    names = dict.fromkeys([*before, *after])
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _describe(found: JobsDiff, before: ShownJob, after: ShownJob, fmt: OutputFormat) -> list[str]:
    lines = [fmt.paint(f"#{before.id} {plain(before.name)} → #{after.id} {plain(after.name)}", "1")]
    sections = {"settings": found.settings, "parameters": found.params, "environment": found.environment}
    for title, changes in sections.items():
        lines += [f"{title}:"] if changes else []
        lines += [f"  {plain(name)}: {_shown(old)} → {_shown(new)}" for name, (old, new) in changes.items()]
    missing = [f"#{job.id}" for job in (before, after) if job.spec.code is None]
    if missing:
        lines.append(f"code: {' and '.join(missing)} added without --snapshot")
    elif found.code:
        lines += ["code:", *(_painted(line, fmt) for line in found.code.splitlines())]
    else:
        lines.append("code: the same")
    return lines


def _shown(value: Any) -> str:
    return "none" if value is None else plain(str(value))


def _painted(line: str, fmt: OutputFormat) -> str:
    colours = {"+": "32", "-": "31", "@": "36", "d": "1"}
    return fmt.paint("\t".join(map(plain, line.split("\t"))), colours.get(line[:1], ""))
