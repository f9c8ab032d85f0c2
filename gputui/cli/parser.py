"""argparse with our manners: one sentence for what is wrong, the nearest flag named, examples in the help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from textwrap import fill, indent
from typing import Any, NoReturn

from .output import Exit, out, refuse

PAGE = 100
WIDTH = 34
"""Where the explanations of a help text begin, at the latest."""
MARK = "\0"
"""Before a word behind `--`, while words are read: no word of a command line can hold it."""
SIGNED = re.compile(r"-\d")

COMMON: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "session": (
        ("--session",),
        {"metavar": "DIR", "help": "use the session in this folder, not the one found from here upward"},
    ),
    "json": (("--json",), {"action": "store_true", "help": "print JSON; later versions only add to it"}),
    "yes": (("-y", "--yes"), {"action": "store_true", "help": "do not ask for confirmation"}),
    "no_start": (
        ("--no-start",),
        {"action": "store_true", "help": "start no keeper if the session has no owner"},
    ),
    "failed": (
        ("--failed",),
        {
            "action": "store_true",
            "help": "the failed jobs that caused the current pause; without one, all failed jobs",
        },
    ),
    "all_failed": (("--all-failed",), {"action": "store_true", "help": "all failed jobs"}),
    "all": (("--all",), {"action": "store_true", "help": "every job to which this applies"}),
}
"""Flags that mean the same wherever they stand."""
OTHER_NAMES = {"--session": "--output-dir", "--output-dir": "--session", "--chdir": "--cwd", "--workdir": "--cwd"}
"""What a flag is called elsewhere."""
SELECTION = ("failed", "all_failed", "all", "yes", "session")


class Options(argparse.Namespace):
    """What was given: flags by name (`--no-wait` is `no_wait`); most verbs have their other words as `words`."""

    verb: str
    session: str | None
    words: list[str]


class HelpPage(argparse.RawDescriptionHelpFormatter):
    """As wide on every terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=WIDTH, width=PAGE)


class Parser(argparse.ArgumentParser):
    """The words of one verb. `signed`: -5 and -6,7 are words here and no flags."""

    def __init__(
        self,
        verb: str,
        description: str,
        *,
        usage: str | None = None,
        examples: str = "",
        epilog: str | None = None,
        allow_abbrev: bool = False,
        signed: bool = False,
    ) -> None:
        super().__init__(
            prog=f"gputui {verb}",
            usage=f"gputui {usage}" if usage else None,
            description=fill(description, PAGE),
            epilog=f"examples:\n{indent(examples, '  ')}" if examples else epilog,
            formatter_class=HelpPage,
            allow_abbrev=allow_abbrev,
            exit_on_error=False,
        )
        if signed:
            self._negative_number_matcher = SIGNED
        self.synopsis = f"gputui {usage or verb}"
        """The usage in one line; argparse sets its own `usage` while it parses."""
        self.command_hint: Callable[[list[str], list[str]], str] | None = None
        """For a parser whose words are a command with flags of its own: how it was probably meant to be written, from
        the words before the command and the command."""
        self.set_defaults(verb=verb)

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Words that are no flags lose the mark of those behind `--`."""
        if not names[0].startswith("-"):
            settings.setdefault("type", _without_mark)
        return super().add_argument(*names, **settings)

    def switch(self, *names: str, help: str) -> None:
        self.add_argument(*names, action="store_true", help=help)

    def add_jobs(self) -> None:
        self.add_argument("words", nargs="*", metavar="JOBS", help="ids, ranges such as 3-9, names")

    def add_job(self) -> None:
        self.add_argument("job", metavar="JOB", help="its id or its name")

    def add_common(self, *keys: str) -> None:
        for key in keys:
            names, settings = COMMON[key]
            self.add_argument(*names, **settings)

    def parse_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        """Flags and other words in any order."""
        given = list(args or ())
        try:
            words = self._respelled(given)
        except _UnknownFlag as unknown_flag:
            self._refuse_word(str(unknown_flag), given)
        try:
            options, unknown = self.parse_known_intermixed_args(words, Options() if namespace is None else namespace)
        except argparse.ArgumentError as error:
            refuse(self._sentence(error, words))
        if unknown:
            self._refuse_word(_without_mark(unknown[0]), given)
        return options

    def _respelled(self, words: list[str]) -> list[str]:
        """`--no_start` is `--no-start`; what stands behind `--` is marked, so that no dash makes it a flag."""
        end = words.index("--") if "--" in words else len(words)
        flags = (self._flag(word) if word[:2] == "--" and " " not in word else word for word in words[:end])
        return [*flags, *(MARK + word for word in words[end + 1 :])]

    def _flag(self, word: str) -> str:
        """A flag that is not known is what is wrong, whatever else may be."""
        written, equals, value = word.partition("=")
        actions = self._option_string_actions
        name = written if written in actions else written.replace("_", "-")
        if name not in actions:
            name = self._in_full(name) if self.allow_abbrev else ""
        if not name:
            raise _UnknownFlag(written)
        return f"{name}{equals}{value}"

    def _in_full(self, start: str) -> str:
        """The flag that begins so; empty: none does."""
        flags = {
            id(action): flag
            for flag, action in reversed(self._option_string_actions.items())
            if flag.startswith(start) and flag in self._offered(start)
        }
        if len(flags) > 1:
            refuse(f"{start} is ambiguous: {_either(reversed(flags.values()))}? ({self._see()})")
        return next(iter(flags.values()), "")

    def _offered(self, written: str) -> list[str]:
        """The flags of the same form, long or short, that the help shows."""
        actions = self._option_string_actions.items()
        shown = [flag for flag, action in actions if action.help is not argparse.SUPPRESS]
        return [flag for flag in shown if flag.startswith("--") == written.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As Python's, in words of ours: Python prints the choices as its programmers write them."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = nearest(str(value), choices)
        hint = f"; did you mean {near}?" if near else ""
        raise argparse.ArgumentError(action, f"{str(value)!r} is not one of {', '.join(choices)}{hint}")

    def _sentence(self, error: argparse.ArgumentError, words: list[str]) -> str:
        names = (error.argument_name or "").split("/")
        action = self._option_string_actions.get(names[0])
        name = next((name for name in names if any(word.startswith(name) for word in words)), names[-1])
        if action is not None and action.nargs == 0:
            return f"{name} takes no value ({self._see()})"
        if action is not None and error.message.startswith("expected"):
            return f"{name} needs a value: {name} {action.metavar or action.dest.upper()} ({self._see()})"
        if error.message.startswith(f"{name} "):
            return error.message  # a sentence of ours
        return f"{name}: {error.message}" if name else self._missing()

    def _refuse_word(self, word: str, words: list[str]) -> NoReturn:
        """`words`: all of them, as given."""
        start = self._first_word(words)
        if self.command_hint is not None and any(each.partition("=")[0] == word for each in words[start:]):
            hint = self.command_hint(words[:start], words[start:])
            refuse(f"{self.prog.removeprefix('gputui ')} has no {word}; {hint}")
        if word[:1] != "-":
            refuse(f"unexpected word {word!r}; usage: {self.synopsis}")
        offered = self._offered(word)
        near = OTHER_NAMES[word] if OTHER_NAMES.get(word) in offered else nearest(word, offered)
        hint = f"; did you mean {near}?" if near else ""
        refuse(f"{self.prog.removeprefix('gputui ')} has no {word}{hint} ({self._see()})")

    def _first_word(self, words: list[str]) -> int:
        """Where the words begin that are neither flags nor values of flags."""
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
        return f"{' and '.join(needed) or 'something'} is missing; usage: {self.synopsis}"

    def _see(self) -> str:
        return f"see {self.prog} --help"

    def error(self, message: str) -> NoReturn:
        """Python calls it only for words that are missing: what else is wrong is raised."""
        refuse(self._missing())

    def print_help(self, file: object = None) -> None:
        out(self.format_help().rstrip("\n"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Exit(status, message or "")


class _UnknownFlag(Exception):
    """The message is the flag."""


def _either(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


def _without_mark(word: str) -> str:
    return word.removeprefix(MARK)


def checked(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A converter whose own sentence reaches the user."""

    def converter(written: str) -> Any:
        try:
            return convert(written)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converter


def whole(written: str) -> int:
    if not (written.isascii() and written.isdecimal()):
        raise argparse.ArgumentTypeError(f"{written!r} is not a whole number from 0 on")
    return int(written)


def nearest(word: str, known_words: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known_words), n=1)), None)
