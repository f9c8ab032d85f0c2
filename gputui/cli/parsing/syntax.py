"""What a verb's words may be: one table read by the parser, by `--help` and by the shells' completions.

Not argparse: importing it and building a parser costs half of what a verb may take to start.
"""

from __future__ import annotations

from gputui.cli.output.words import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

PAGE = 100
WIDTH = 34
"""Where the explanations of a help text begin, at the latest."""


class Flag:
    """`value` is what stands for its value in the help; empty: a switch. `many`: it may be given several times."""

    __slots__ = ("choices", "convert", "help", "many", "names", "value")

    def __init__(
        self,
        *names: str,
        help: str,
        value: str = "",
        convert: Callable[[str], Any] | None = None,
        choices: tuple[str, ...] = (),
        many: bool = False,
    ) -> None:
        self.names = names
        self.help = help
        self.value = value
        self.convert = convert
        self.choices = choices
        self.many = many

    @property
    def key(self) -> str:
        """After its first long name: `--no-wait` is `no_wait`."""
        name = next((name for name in self.names if name.startswith("--")), self.names[0])
        return name.lstrip("-").replace("-", "_")


class Options:
    """What was given: flags by name (`--no-wait` is `no_wait`), and the other words as `words`."""

    def __init__(self, verb: Verb, given: dict[str, Any], words: list[str]) -> None:
        self.verb = verb.name
        self.words = words
        for one in verb.flags:
            nothing: Any = [] if one.many else None if one.value else False
            setattr(self, one.key, given.get(one.key, nothing))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Verb:
    """A verb's table. `signed`: words such as -5 or -6,7 are no flags; `rest`: what follows `--` stays as it is."""

    def __init__(
        self,
        name: str,
        usage: str,
        summary: str,
        examples: str,
        flags: Sequence[Flag] = (),
        *,
        words: tuple[int, int | None] = (0, None),
        signed: bool = False,
    ) -> None:
        self.name = name
        self.usage = usage
        self.summary = summary
        self.examples = examples
        self.flags = (*flags, HELP)
        self._least, self._most = words
        self._signed = signed
        self._named = {name: one for one in self.flags for name in one.names}

    def read(self, words: Sequence[str]) -> Options:
        given: dict[str, Any] = {}
        others: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                others += rest
                break
            if not self._is_flag(word):
                others.append(word)
            else:
                self._take(word, rest, given)
        if given.get("help"):
            return Options(self, given, others)
        self._check_count(others)
        return Options(self, given, others)

    def _is_flag(self, word: str) -> bool:
        if len(word) < 2 or word[0] != "-":
            return False
        return not (self._signed and word[1].isdigit())

    def _take(self, word: str, rest: list[str], given: dict[str, Any]) -> None:
        name, equals, written = word.partition("=")
        one = self._named.get(name) or self._named.get(name.replace("_", "-"))
        if one is None and word[1] != "-" and word[:2] in self._named:  # -n5, -fn5
            one, name = self._named[word[:2]], word[:2]
            equals, written = ("=", word[2:]) if one.value else ("", "")
            if not one.value:
                rest.insert(0, "-" + word[2:])
        if one is None:
            self._unknown(name)
        if not one.value:
            if equals:
                refuse(f"{name} takes no value ({self._see()})")
            given[one.key] = True
            return
        if not equals and not rest:
            refuse(f"{name} needs a value: {name} {one.value} ({self._see()})")
        value = self._converted(one, name, written if equals else rest.pop(0))
        if one.many:
            given.setdefault(one.key, []).append(value)
        else:
            given[one.key] = value

    def _converted(self, one: Flag, name: str, written: str) -> Any:
        if one.choices and written not in one.choices:
            refuse(f"{name} {written!r}: choose one of {', '.join(one.choices)}")
        if one.convert is None:
            return written
        try:
            return one.convert(written)
        except ValueError as error:
            refuse(f"{name}: {error}")

    def _unknown(self, name: str) -> NoReturn:
        near = nearest(name, self._named)
        hint = f"; did you mean {near}?" if near else ""
        refuse(f"{self.name} has no {name}{hint} ({self._see()})")

    def _check_count(self, words: list[str]) -> None:
        if len(words) < self._least:
            refuse(f"something is missing; usage: gputui {self.usage}")
        if self._most is not None and len(words) > self._most:
            refuse(f"{words[self._most]!r} is too much; usage: gputui {self.usage}")

    def _see(self) -> str:
        return f"see gputui {self.name} --help"

    def help(self) -> str:
        from textwrap import fill

        lines = [f"usage: gputui {self.usage}", "", fill(self.summary, PAGE), "", "options:"]
        lines += [_line(one) for one in self.flags]
        return "\n".join([*lines, "", "examples:", *("  " + line for line in self.examples.splitlines()), ""])


def _line(one: Flag) -> str:
    names = ", ".join(sorted(one.names, key=len))
    left = f"  {names} {one.value}".rstrip()
    return f"{left:<{WIDTH}}{one.help}" if len(left) < WIDTH else f"{left}\n{'':<{WIDTH}}{one.help}"


def nearest(word: str, known: Sequence[str] | dict[str, Any]) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1)
    return found[0] if found else None


HELP = Flag("-h", "--help", help="this text")
SESSION = Flag("--session", value="DIR", help="the session's folder, instead of the one found upward from here")
JSON = Flag("--json", help="for programs; its shape only ever grows")
YES = Flag("-y", "--yes", help="do not ask")
NO_START = Flag("--no-start", help="start no keeper when nobody owns the session")
SELECTION = (
    Flag("--failed", help="the jobs that the current pause names; without such a pause every job that failed"),
    Flag("--all-failed", help="every job that failed"),
    Flag("--all", help="every job this verb applies to"),
)
