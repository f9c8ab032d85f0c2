"""`gputui add`: a job from another shell, with that shell's folder and environment."""

from __future__ import annotations

import os
import sys

from gputui.cli.calling import carry_out, known
from gputui.cli.output.words import out, refuse, say
from gputui.cli.parsing.syntax import NO_START, SESSION, Flag, Options, Verb
from gputui.session.config import load
from gputui.session.control.client import Client, NoSession
from gputui.session.locate import chosen
from gputui.session.login import captured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

HIGHEST_PRIORITY = 99
MOST_GPUS = 1024
MOST_RETRIES = 1000
LONGEST_COMMAND = (128 << 10) - 1024


def _priority(written: str) -> int:
    from gputui.sources.values import count

    return count(written, highest=HIGHEST_PRIORITY)


def _gpus(written: str) -> int:
    from gputui.sources.values import count

    return count(written, highest=MOST_GPUS)


def _retries(written: str) -> int:
    from gputui.sources.values import count

    return count(written, highest=MOST_RETRIES)


def _memory(written: str) -> tuple[int | None, float | None]:
    from gputui.sources.values import bytes_or_share

    return bytes_or_share(written)


def _timeout(written: str) -> float:
    from gputui.sources.values import duration

    seconds = duration(written)
    if seconds <= 0:
        raise ValueError("would end the job at once; leave it out for no limit")
    return seconds


def _after(written: str) -> list[int | str]:
    """Ids are digits; anything else is a name."""
    return [int(word) if word.isascii() and word.isdecimal() else word for word in _words(written)]


def _words(written: str) -> list[str]:
    from gputui.sources.values import words

    return list(words(written))


def _text(written: str) -> str:
    from gputui.sources.values import text

    return text(written)


def _task(written: str) -> str:
    from gputui.sources.values import task

    return task(written)


def _variable(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise ValueError(f"{written!r} is no NAME=VALUE")
    return name, value


JOB_FLAGS = (
    Flag("--priority", value="N", convert=_priority, help="0 to 99, higher first (30)"),
    Flag("--gpus", value="N", convert=_gpus, help="how many GPUs; 0: none (one lane)"),
    Flag("--memory", value="SIZE", convert=_memory, help="GPU memory it will use: 6G, 500M or 40%"),
    Flag("--devices", value="LIST", convert=_words, help="only on these GPUs"),
    Flag("--after", value="JOBS", convert=_after, help="start when these have succeeded (ids or names)"),
    Flag("--after-any", value="JOBS", convert=_after, help="start when these have ended, however"),
    Flag("--retries", value="N", convert=_retries, help="run it again when it fails, up to N times"),
    Flag("--timeout", value="TIME", convert=_timeout, help="end it after 90, 5m, 2h …"),
    Flag("--env", value="K=V", convert=_variable, many=True, help="a variable of this job; may be repeated"),
    Flag("--cwd", value="DIR", help="where it runs, instead of here"),
    Flag("--hold", help="do not start it before it is released"),
    Flag("--group", "--project", value="NAME", convert=_text, help="the group it belongs to"),
    Flag("--wrap", value="WORDS", convert=_text, help="words before its shell: 'apptainer exec --nv x.sif'"),
    Flag("--task", value="FUNCTION", convert=_task, help="call module:function instead of a shell"),
    Flag("--shell", value="SHELL", help="instead of bash"),
    Flag("--login-shell", help="under a login shell (-l)"),
)
"""What can be said of a job, by every verb that adds some."""

VERBS = {
    "add": Verb(
        "add",
        "add [options] -- COMMAND … | add --script FILE | add -",
        "Adds a job with this folder and this environment, and prints its id. Several words are quoted for the shell; "
        "a single one is taken as it is. A script or standard input is one job. Without a session one is begun in "
        "./gputui_run.",
        "gputui add -- python train.py --lr 0.1\n"
        "gputui add 'python prepare.py && python train.py'\n"
        "gputui add --gpus 2 --name big --after prepare -- torchrun train.py\n"
        "gputui add - <<'END'\n"
        'first=$(gputui add -- python a.py); gputui add --after "$first" -- python b.py',
        (
            Flag("--name", value="NAME", convert=_text, help="how the job is called"),
            Flag("--outfile", value="FILE", help="both streams into this file, which must not exist"),
            *JOB_FLAGS,
            Flag("--script", value="FILE", help="the command is the text of this file"),
            NO_START,
            SESSION,
        ),
    )
}


def main(verb: str, words: list[str]) -> int:
    return carry_out(VERBS[verb], words, work)


def work(options: Options) -> int:
    job = {"command": command(options), "name": options.name, "outfile": options.outfile}
    for job_id in add_all(options, [job], "add"):
        out(str(job_id))
    return 0


def add_all(options: Options, jobs: Iterable[dict[str, Any]], origin: str, group: str = "") -> list[int]:
    """Adds jobs that have all but their own fields in common; their ids. `group`: when the user named none."""
    config = load()
    common = job_spec(options, config.get("shell")[0], {key: config.get(key)[0] for key in ("retries", "timeout")})
    if config.get("login_shell")[0]:
        common.setdefault("login_shell", True)
    if options.group is None and group:
        common["group"] = group
    specs = [{**common, **_said(job | {"outfile": _outfile(common["cwd"], job["outfile"])})} for job in jobs]
    client = _client(options, str(config.get("output_dir")[0]))
    work = not options.no_start and bool(config.get("keeper")[0])
    answer = client.ask("load", work=work, specs=specs, environment=captured(), origin=origin, again={})
    ids: list[int] = answer["jobs"]
    return ids


def _client(options: Options, output_dir: str) -> Client:
    try:
        return known(chosen("add", options.session))
    except NoSession:
        if options.session:
            raise
    from gputui.cli.beginning import begin

    root = os.path.abspath(os.path.expanduser(output_dir))
    for notice in begin(root):
        say(notice)
    return Client(root)


def job_spec(options: Options, shell: str | None, defaults: dict[str, Any]) -> dict[str, Any]:
    """What these options say of a job, as it travels: what nobody said is left out."""
    if options.after and options.after_any:
        refuse("--after and --after-any cannot be mixed for one job")
    folder = _path(os.getcwd(), options.cwd or ".")
    if folder != folder.encode("utf-8", "replace").decode():
        refuse(f"the name of {os.fsencode(folder)!r}, where it would run, is not UTF-8; choose another with --cwd")
    if not os.path.isdir(folder):
        refuse(f"--cwd {folder}: there is no such folder")
    spec = {
        "cwd": folder,
        "environment": "",
        "variables": dict(options.env),
        "group": options.group,
        "request": _request(options),
        "priority": options.priority,
        "retries": options.retries if options.retries is not None else defaults["retries"],
        "timeout": options.timeout if options.timeout is not None else defaults["timeout"],
        "after": options.after or options.after_any,
        "after_any": bool(options.after_any) or None,
        "hold": options.hold or None,
        "shell": options.shell or shell,
        "login_shell": options.login_shell or None,
        "wrap": options.wrap,
        "task": options.task,
    }
    return _said(spec)


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, {})}


def _request(options: Options) -> dict[str, Any]:
    size, share = options.memory or (None, None)
    request = {"gpus": options.gpus, "devices": options.devices, "memory": size, "memory_share": share}
    return {key: value for key, value in request.items() if value is not None}


def command(options: Options) -> str:
    if options.script is not None:
        if options.words:
            refuse("give either --script or a command")
        return checked(_script(options.script), options.script)
    if options.words == ["-"]:
        return checked(sys.stdin.buffer.read(), "standard input")
    if not options.words:
        refuse("what is to run? gputui add -- COMMAND …, gputui add --script FILE or gputui add -")
    if len(options.words) == 1:
        return checked(os.fsencode(options.words[0]), "the command")
    from shlex import join

    return checked(os.fsencode(join(options.words)), "the command")


def _script(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST_COMMAND + 1)
    except OSError as error:
        refuse(f"--script {path} cannot be read: {error.strerror}")


def checked(written: bytes, origin: str) -> str:
    """A command that can be stored and passed to a shell."""
    if b"\0" in written:
        refuse(f"{origin} holds a NUL byte; remove it")
    if len(written) > LONGEST_COMMAND:
        refuse(f"{origin} is longer than the {LONGEST_COMMAND} bytes a command may have; call a script instead")
    try:
        text = written.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        refuse(f"{origin} is not UTF-8 at byte {error.start}")
    if not text.strip():
        refuse(f"{origin} is empty")
    return text


def _outfile(folder: str, written: str | None) -> str | None:
    return _path(folder, written) if written else None


def _path(folder: str, written: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(written)))
