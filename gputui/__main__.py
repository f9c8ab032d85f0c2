"""The command line's door: finds the verb's module and loads nothing else."""

from __future__ import annotations

import os
import sys

from gputui.cli.verbs import ALIASES, VERBS, reads_stdin, run


def main(arguments: list[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from gputui.cli.tab import complete

        complete()
    words = _verb_first(sys.argv[1:] if arguments is None else arguments)
    if _names_a_host(words):
        from gputui.cli.remote import main as elsewhere

        return elsewhere(words, reads_stdin)
    if words and words[0] in VERBS:
        return run(words[0], words[1:])
    from gputui.cli.top import main as top

    return top(words)


def _verb_first(words: list[str]) -> list[str]:
    """`gputui --session DIR ls` means what `gputui ls --session DIR` does, and `remove` what `rm` does."""
    if len(words) > 2 and words[0] == "--session" and words[2] in (*VERBS, *ALIASES):
        words = [words[2], *words[:2], *words[3:]]
    return [ALIASES.get(words[0], words[0]), *words[1:]] if words else words


def _names_a_host(words: list[str]) -> bool:
    """Whether they are for another machine; behind `--` they are a job's, and `hosts` reads its own."""
    end = words.index("--") if "--" in words else len(words)
    return words[:1] != ["hosts"] and any(word.partition("=")[0] == "--host" for word in words[:end])


if __name__ == "__main__":
    sys.exit(main())
