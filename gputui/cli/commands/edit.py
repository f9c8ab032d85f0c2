"""`gputui edit`: edit a waiting job's settings as TOML in the user's editor."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from typing import Any

from msgspec.structs import replace

from gputui.cli.command import ChangedJobs, ask_yes_no, find_session, on_terminal, report_outcomes, seen
from gputui.cli.output import Exit, say
from gputui.cli.parser import Options, Parser
from gputui.core.events import Edit, SetPriority, UserCommand
from gputui.core.job import WAITING, JobSpec, predicate
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.code_snapshots import with_code
from gputui.session.messages import Commands, Outcome, PickedJob, ShownJob
from gputui.sources.documents import BadTable, checked_command, read_table
from gputui.sources.settings import SETTINGS, Setting
from gputui.sources.source import BadInput, changed_spec, settings_of

from .show import show

_SHOWN = {key: setting for key, setting in SETTINGS.items() if key not in ("hold", "key")}
"""Settings that can be edited. Holding and releasing are separate commands, and a job keeps its key."""
_UNSET: tuple[Any, ...] = ("", [], {})
"""Values that count as "not set"."""
ANSWERS = {"edit": ChangedJobs}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Edit a waiting job's settings in $VISUAL or $EDITOR. Errors are shown and your text is kept.",
        usage="edit JOB",
        examples="gputui edit 12\nEDITOR=nano gputui edit baseline",
    )
    parser.add_job()
    parser.add_common("yes", "json", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    shown = show(client, options.job)
    if shown.state not in WAITING:
        raise Exit(1, f"#{shown.id} {predicate(shown.state)}: only waiting jobs can be edited")
    before = text_of(shown)
    # mkstemp makes the file private: a job's variables may contain secrets.
    descriptor, path = tempfile.mkstemp(prefix=f"gputui-{shown.id}-", suffix=".toml")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(before)
    while True:
        _run_editor(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            after = file.read()
        if after == before:
            os.unlink(path)
            raise Exit(1, "no changes")
        problem = _apply(client, shown, after, path)
        if problem is None:
            os.unlink(path)
            job = PickedJob(shown.id, shown.name, shown.state, shown.attempt, shown.priority)
            return report_outcomes([Outcome(shown.id, None)], [job], "changed")
        say(problem)
        if options.yes or not on_terminal() or not ask_yes_no("edit again?", otherwise=True):
            raise Exit(1, f"no changes; your text is kept in {path}")


def _apply(client: Client, shown: ShownJob, text: str, path: str) -> str | None:
    """Apply the edited settings. Return an error message if they are invalid or refused."""
    try:
        (spec,) = with_code(client.root, (spec_in(text, shown.spec, path),))
    except (BadText, BadInput) as error:
        return str(error)
    events: list[UserCommand] = [Edit(job=shown.id, seen=seen(shown), spec=spec)]
    if spec.priority != shown.priority:
        # The priority of the spec is the one it was added with, so an edit may not change it.
        events.append(SetPriority(job=shown.id, priority=spec.priority))
    outcomes = client.ask(Commands(tuple(events)))
    for outcome in outcomes:
        if outcome.warning:
            say(f"warning: {plain(outcome.warning)}")
    return next((outcome.refused for outcome in outcomes if outcome.refused is not None), None)


def _run_editor(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Use the shell, because $EDITOR may contain several words.
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f'{editor} "$@"', editor, path], os.environ)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        os.unlink(path)
        raise Exit(1, f"{editor} exited with {status}; no changes")


# Settings as TOML


class BadText(Exception):
    """Raised when the edited text is invalid. The message is shown to the user."""


def text_of(shown: ShownJob) -> str:
    spec = shown.spec
    values = _values(spec) | {"priority": shown.priority}
    lines = [
        f"# gputui job {shown.id}. Save and exit to apply your changes; exit unchanged to cancel.",
        f"command = {_toml(spec.command)}",
        *(f"{key} = {_toml(values[key])}  # {setting.help}" for key, setting in _SHOWN.items()),
    ]
    return "\n".join(lines) + "\n"


def _values(spec: JobSpec) -> dict[str, Any]:
    """Return the value of each setting in the form used in the edited text."""
    settings = settings_of(spec)
    values = {key: getattr(settings, setting.field) for key, setting in _SHOWN.items()}
    return {
        key: _unset_value(_SHOWN[key]) if value is None else list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
    }


def _unset_value(setting: Setting) -> Any:
    if not setting.metavar:
        return False
    return {} if setting.field == "variables" else [] if setting.field in ("after", "devices") else ""


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value and "'''" not in value and value.replace("\n", "").isprintable():
            return f"'''\n{value}'''"
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{ " + ", ".join(f"{_quoted(key)} = {_toml(entry)}" for key, entry in value.items()) + " }"
    return str(value)


def _quoted(text: str) -> str:
    """Quote text as JSON, which is valid TOML except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def spec_in(text: str, job: JobSpec, path: str) -> JobSpec:
    """Parse the text into a spec. Raise BadText with the file and the key if it is invalid.

    Unchanged settings are kept even if gputui would no longer accept them.
    """
    values_before = _values(job)
    try:
        table = tomllib.loads(text)
        written = {key: value for key, value in table.items() if value != values_before.get(key)}
        read = read_table({key: value for key, value in written.items() if key == "command" or value not in _UNSET})
        if read.command != job.command:
            checked_command(read.command)
    except tomllib.TOMLDecodeError as error:
        raise BadText(f"invalid TOML in {path}: {error}") from None
    except BadTable as error:
        raise BadText(f"{path}: {error}") from None
    unset = {setting.field: None for key, setting in _SHOWN.items() if key in written or key not in table}
    given = {field: value for field in unset if (value := getattr(read.settings, field)) is not None}
    return changed_spec(job, read.command or "", replace(settings_of(job), **unset | given))
