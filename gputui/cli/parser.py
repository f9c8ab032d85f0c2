"""An argparse parser with short error messages that suggest the nearest flag, and with examples in the help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from textwrap import fill, indent
from typing import Any, NoReturn

from .output import Exit, out, refuse

PAGE = 100
WIDTH = 34
"""Column at which help texts begin."""
MARK = "\0"
"""Prefix that marks the words after `--` during parsing, so that none is mistaken for a flag.

No argument can contain it.
"""

SESSION_HELP = "session directory (default: the nearest one in this directory or its parents)"
COMMON = {
    "json": "JSON output; fields are only ever added",
    "yes": "do not ask for confirmation",
    "dry_run": "show what would happen; change nothing",
    "no_start": "do not start a daemon if none is running",
    "failed": "jobs named by the current pause; without a pause, all failed jobs",
    "all_failed": "all failed jobs",
    "all": "all jobs this command applies to",
}
"""Flags that have the same meaning in all commands, with their help."""
OTHER_NAMES = {"--session": "--output-dir", "--output-dir": "--session", "--chdir": "--cwd", "--workdir": "--cwd"}
"""Names that a flag has in other commands, for suggestions."""
SELECTION = ("failed", "all_failed", "all", "yes", "json", "session")


class Options(argparse.Namespace):
    """The parsed flags as attributes (`--no-wait` is `no_wait`).

    Most commands have their positional arguments in `words`.
    """

    subcommand: str
    session: str | None
    words: list[str]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help with a fixed width, independent of the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=WIDTH, width=PAGE)


class Parser(argparse.ArgumentParser):
    """The parser of one command.

    `signed`: arguments such as -5 and -6,7 are not flags.
    """

    def __init__(
        self,
        subcommand: str,
        description: str,
        *,
        usage: str | None = None,
        examples: str = "",
        epilog: str | None = None,
        allow_abbrev: bool = False,
        signed: bool = False,
        prepare: Callable[[list[str]], list[str]] = list,
    ) -> None:
        """Create the parser.

        `prepare` rewrites the command line before it is parsed.
        """
        super().__init__(
            prog=f"gputui {subcommand}",
            usage=f"gputui {usage}" if usage else None,
            description=fill(description, PAGE),
            epilog=f"examples:\n{indent(examples, '  ')}" if examples else epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=allow_abbrev,
            exit_on_error=False,
        )
        if signed:
            self._negative_number_matcher = re.compile(r"-\d")
        self._prepare = prepare
        self.synopsis = f"gputui {usage or subcommand}"
        """The usage in one line. argparse's own `usage` cannot be used because argparse changes it during parsing."""
        self.command_hint: Callable[[list[str], list[str]], str] | None = None
        """Function that suggests how to write the command line if the arguments are a command with flags of its own.

        Its arguments are the words before the command, and the words of the command.
        """
        self.set_defaults(subcommand=subcommand)

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument. Positional arguments are converted without the mark of words after `--`."""
        if not names[0].startswith("-"):
            settings.setdefault("type", _remove_mark)
        return super().add_argument(*names, **settings)

    def switch(self, *names: str, help: str) -> None:
        self.add_argument(*names, action="store_true", help=help)

    def add_metric(self) -> None:
        self.add_argument(
            "--metric", default="", metavar="NAME", help=("another metric; 'score max': higher is better")
        )

    def add_jobs(self) -> None:
        self.add_argument("words", nargs="*", metavar="JOBS", help="ids, ranges such as 3-9, or names")

    def add_job(self) -> None:
        self.add_argument("job", metavar="JOB", help="job id or name")

    def add_common(self, *keys: str) -> None:
        for key in keys:
            if key == "session":
                self.add_argument("--session", metavar="DIR", help=SESSION_HELP)
            else:
                short = ("-y",) if key == "yes" else ()
                self.switch(*short, f"--{key.replace('_', '-')}", help=COMMON[key])

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Parse flags and other words in any order. Exit with a usage error if they are invalid."""
        given = self._prepare(list(args or ()))
        words = self._normalize(given)
        try:
            options, unknown = self.parse_known_intermixed_args(words, Options() if namespace is None else namespace)
        except argparse.ArgumentError as error:
            refuse(self._describe_error(error, words))
        if unknown:
            self._refuse_word(_remove_mark(unknown[0]), given)
        return options

    def _normalize(self, words: list[str]) -> list[str]:
        """Accept `--no_start` as `--no-start`, and mark the words after `--`."""
        end = words.index("--") if "--" in words else len(words)
        flags = [self._flag(word, words) if word[:2] == "--" and " " not in word else word for word in words[:end]]
        return [*flags, *(MARK + word for word in words[end + 1 :])]

    def _flag(self, word: str, words: list[str]) -> str:
        """Return the full name of a flag. Exit if it is unknown, before any other error is reported."""
        written, equals, value = word.partition("=")
        actions = self._option_string_actions
        name = written if written in actions else written.replace("_", "-")
        if name not in actions:
            name = self._expand(name) if self.allow_abbrev else ""
        if not name:
            self._refuse_word(written, words)
        return f"{name}{equals}{value}"

    def _expand(self, start: str) -> str:
        """Return the flag that starts with this text, or "" if there is none."""
        flags = {
            id(action): flag
            for flag, action in reversed(self._option_string_actions.items())
            if flag.startswith(start) and flag in self._offered(start)
        }
        if len(flags) > 1:
            *others, last = reversed(flags.values())
            refuse(f"{start} is ambiguous: {', '.join(others)} or {last}? ({self._help_hint})")
        return next(iter(flags.values()), "")

    def _offered(self, written: str) -> list[str]:
        """Return the visible flags of the same form (long or short) as `written`."""
        actions = self._option_string_actions.items()
        visible = [flag for flag, action in actions if action.help is not argparse.SUPPRESS]
        return [flag for flag in visible if flag.startswith("--") == written.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a value. This overrides argparse, which would show the choices as Python values."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        from gputui.sources.values import closest_match

        near = closest_match(str(value), choices)
        hint = f"; did you mean {near}?" if near else ""
        raise argparse.ArgumentError(action, f"{str(value)!r} is not one of {', '.join(choices)}{hint}")

    def _describe_error(self, error: argparse.ArgumentError, words: list[str]) -> str:
        names = (error.argument_name or "").split("/")
        action = self._option_string_actions.get(names[0])
        name = next((name for name in names if any(word.startswith(name) for word in words)), names[-1])
        if action is not None and action.nargs == 0:
            return f"{name} takes no value ({self._help_hint})"
        if action is not None and error.message.startswith("expected"):
            return f"{name} needs a value: {name} {action.metavar or action.dest.upper()} ({self._help_hint})"
        if error.message.startswith(f"{name} "):
            return error.message  # raised by our own code
        return f"{name}: {error.message}" if name else self._missing()

    def _refuse_word(self, word: str, words: list[str]) -> NoReturn:
        start = self._first_word(words)
        if self.command_hint is not None and any(other.partition("=")[0] == word for other in words[start:]):
            hint = self.command_hint(words[:start], words[start:])
            refuse(f"{self.prog.removeprefix('gputui ')} has no option {word}; {hint}")
        if word[:1] != "-":
            refuse(f"unexpected {word!r}; usage: {self.synopsis}")
        from gputui.sources.values import closest_match

        offered = self._offered(word)
        near = OTHER_NAMES[word] if OTHER_NAMES.get(word) in offered else closest_match(word, offered)
        hint = f"; did you mean {near}?" if near else ""
        refuse(f"{self.prog.removeprefix('gputui ')}: unknown option {word}{hint} ({self._help_hint})")

    def _first_word(self, words: list[str]) -> int:
        """Return the index of the first word that is neither a flag nor a flag's value."""
        index = 0
        while index < len(words) and words[index][:1] == "-":
            name, equals, _ = words[index].partition("=")
            action = self._option_string_actions.get(name.replace("_", "-") if name[:2] == "--" else name)
            index += 2 if action is not None and action.nargs != 0 and not equals else 1
        return index

    def _missing(self) -> str:
        needed = [
            str(action.metavar or action.dest) for action in self._get_positional_actions() if action.nargs is None
        ]
        return f"missing {' and '.join(needed) or 'argument'}; usage: {self.synopsis}"

    @property
    def _help_hint(self) -> str:
        return f"see {self.prog} --help"

    def error(self, message: str) -> NoReturn:
        """Exit with a usage error. argparse calls this only for missing arguments, because other errors are raised."""
        refuse(self._missing())

    def print_help(self, file: object = None) -> None:
        out(self.format_help().rstrip("\n"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Exit(status, message or "")


def _remove_mark(word: str) -> str:
    return word.removeprefix(MARK)


def argument_type(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a converter for argparse that preserves the message of a ValueError."""

    def converter(written: str) -> Any:
        try:
            return convert(written)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converter


def whole_number(written: str) -> int:
    if not (written.isascii() and written.isdecimal()):
        raise argparse.ArgumentTypeError(f"invalid number {written!r}: use 0, 1, 2 …")
    return int(written)
