"""The command line's door: finds the verb's module and loads nothing else."""

from __future__ import annotations

import io
import os
import sys

from gputui.cli.verbs import ALIASES, VERBS, reads_stdin, run

NO_MEMORY = b"gputui: out of memory; free some, or raise the limit (ulimit -v, a container's memory.max)\n"


def main(arguments: list[str] | None = None) -> int:
    if arguments is None:
        _use_utf8()
    try:
        return _main(arguments)
    except (MemoryError, ImportError, OSError) as error:
        if _lacks_memory(error):
            os.write(2, NO_MEMORY)  # made beforehand: there may be no memory for more
        elif not os.path.exists(__file__):
            folder = os.path.dirname(os.path.abspath(__file__))
            sentence = f"{folder} was deleted or replaced while gputui ran; running jobs go on. Install it again"
            os.write(2, os.fsencode(f"gputui: {sentence}, then: gputui ls\n"))
        else:
            raise
        return 1


def _use_utf8() -> None:
    """Start Python again in its UTF-8 mode under another locale, so that commands, names and paths keep their bytes.

    An option and not a variable, because jobs inherit those. What the terminal cannot show is replaced.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        encoding = getattr(sys.stdout, "encoding", "ascii")
        program, *words = sys.orig_argv
        os.execv(sys.executable, [program, "-X", "utf8", "-X", f"gputui-output={encoding}", *words])
    shown_in = sys._xoptions.get("gputui-output")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=shown_in if isinstance(shown_in, str) else None, errors="replace")


def _lacks_memory(error: Exception) -> bool:
    """As Python says it, the kernel, and the loader of libraries."""
    enomem = 12  # errno would have to be imported
    return isinstance(error, MemoryError) or getattr(error, "errno", 0) == enomem or "failed to map" in str(error)


def _main(arguments: list[str] | None) -> int:
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
