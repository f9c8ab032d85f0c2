"""Entry point of the command line. It loads only the module of the requested command."""

from __future__ import annotations

import gc
import io
import os
import sys

from gputui.cli.commands import ALIASES, SUBCOMMANDS, run

OWNER_FIRST = 1.5
"""Maximum number of seconds that a waiting daemon delays its imports while the owner that started it is starting."""
NO_MEMORY = b"gputui: out of memory; free some, or raise the limit (ulimit -v, a container's memory.max)\n"


def main(arguments: list[str] | None = None) -> int:
    gc.set_threshold(100_000)  # imports create many objects and no garbage
    if arguments is None:
        _open_closed_output()
        _use_utf8()
    try:
        return _main(arguments)
    except (MemoryError, SystemError, ImportError, OSError) as error:
        if _lacks_memory(error):
            os.write(2, NO_MEMORY)  # formatted in advance, because there may be no memory left
        elif not os.path.exists(__file__):
            directory = os.path.dirname(os.path.abspath(__file__))
            message = f"{directory} was deleted or replaced while gputui ran; running jobs continue. Install it again"
            os.write(2, os.fsencode(f"gputui: {message}, then: gputui ls\n"))
        else:
            raise
        return 1
    finally:
        if arguments is None:
            gc.freeze()  # so that Python does not search for garbage three times before it exits, which takes 20 ms


def _open_closed_output() -> None:
    """Replace standard output and error if they are closed, so that no other file gets their numbers.

    Writing to the replacement fails, as it does with the closed file.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, number)
            if null > 2:
                os.close(null)
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115  # open until the end


def _use_utf8() -> None:
    """Restart Python in UTF-8 mode if the locale is not UTF-8, so that commands, names and paths keep their bytes.

    UTF-8 mode is set by an option and not by an environment variable, because jobs inherit variables. Characters that
    the terminal cannot show are replaced.
    """
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        encoding = getattr(sys.stdout, "encoding", "ascii")
        program, *words = sys.orig_argv
        os.execv(sys.executable, [program, "-X", "utf8", "-X", f"gputui-output={encoding}", *words])
    output_encoding = sys._xoptions.get("gputui-output")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=output_encoding if isinstance(output_encoding, str) else None, errors="replace")


def _lacks_memory(error: Exception) -> bool:
    """Return whether this error from Python, the kernel or the dynamic loader means that memory is exhausted."""
    enomem = 12  # the module errno is not imported, for speed
    # CPython raises SystemError where its own C code forgot to report that memory is exhausted.
    return (
        isinstance(error, MemoryError | SystemError)
        or getattr(error, "errno", 0) == enomem
        or "failed to map" in str(error)
    )


def _main(arguments: list[str] | None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from gputui.cli.commands.completion import complete

        complete()
    words = _normalize(sys.argv[1:] if arguments is None else arguments)
    if _has_host(words):
        from gputui.cli.command import run_command
        from gputui.cli.commands.hosts import run_remote

        return run_command(lambda: run_remote(words), words)
    if words[:3] == ["daemon", "--wait", "--for"]:
        _let_owner_start(words[3:])
    if words and words[0] in SUBCOMMANDS:
        return run(words[0], words[1:])
    from gputui.cli.top import main as top

    return top(words)


def _let_owner_start(words: list[str]) -> None:
    """Delay the slow imports so that they do not compete with the owner for the processor, or until the owner dies.

    The imports take a tenth of a second of processor time.
    """
    import select

    try:
        owner = os.pidfd_open(int(words[0]))
    except (AttributeError, IndexError, OSError, ValueError):
        return
    select.select([owner], [], [], OWNER_FIRST)
    os.close(owner)


def _normalize(words: list[str]) -> list[str]:
    """Turn `gputui --session DIR ls` into `gputui ls --session DIR`, and `remove` into `rm`."""
    if len(words) > 2 and words[0] == "--session" and words[2] in (*SUBCOMMANDS, *ALIASES):
        words = [words[2], *words[:2], *words[3:]]
    return [ALIASES.get(words[0], words[0]), *words[1:]] if words else words


def _has_host(words: list[str]) -> bool:
    """Return whether `--host` asks to run the command on another machine.

    `gputui hosts` is excluded because it parses `--host` itself.
    """
    end = words.index("--") if "--" in words else len(words)
    return words[:1] != ["hosts"] and any(word.partition("=")[0] == "--host" for word in words[:end])


if __name__ == "__main__":
    sys.exit(main())
