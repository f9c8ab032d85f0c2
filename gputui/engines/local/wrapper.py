"""The wrapper: a few lines of POSIX sh that claim an attempt, run its command and witness its end.

It is passed as text, so an upgrade of gputui never changes the wrapper of a running job, and it is not Python, so
a job costs no interpreter. The command means what it means under `bash -c`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from gputui.engines.claims import EXIT_WORD, FOLDER_GONE_LINE
from gputui.engines.protocol import Launch
from gputui.process.processes import TOKEN_VARIABLE

from .spawn import HELD_BY_WRAPPER

SHELL = "/bin/sh"
CLAIM_FAILED = 125
_WITHOUT_LEASES = " ".join(f"{fd}>&-" for fd in HELD_BY_WRAPPER)
FOLDER_FAILED = 126

# Trapped with ':' and not '': the command gets default dispositions, and a signal to the whole group does not end
# the wrapper before it has written the code. The names of variables are ours alone because the command may know
# any other from its environment.
TEXT = f"""\
trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2 XCPU XFSZ
gputui_claim=$1 gputui_folder=$2 gputui_code=0
shift 2
set -C
{{ echo "$$" >"$gputui_claim"; }} 2>/dev/null || exit {CLAIM_FAILED}
if cd -- "$gputui_folder" 2>/dev/null; then
    "$@" {_WITHOUT_LEASES} || gputui_code=$?
    {{ echo "{EXIT_WORD.decode()} $gputui_code" >>"$gputui_claim"; }} 2>/dev/null
    exit "$gputui_code"
fi
{{ echo {FOLDER_GONE_LINE.decode()} >>"$gputui_claim"; }} 2>/dev/null
exit {FOLDER_FAILED}
"""

# A word with a slash may name a script without '#!', which sh would run itself and bash would run in bash.
_PLAIN_WORDS = re.compile(r"[ \t]*[A-Za-z0-9_.+@-]+(?:[ \t]+[A-Za-z0-9_./:,+@%=-]+)*[ \t\n]*")
# Without true and false, which are the same in every shell: the wrapper runs them itself.
_BUILTINS_AND_KEYWORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap type typeset ulimit umask unalias unset until wait while
"""
_NEEDS_BASH = frozenset(_BUILTINS_AND_KEYWORDS.split())
_EXPORTED_FUNCTION = "BASH_FUNC_"
_SETS_UP_BASH = ("BASH_ENV", "SHELLOPTS", "BASHOPTS")
# Shells that end their options at '--'; in others '--' would be the command.
_KNOW_END_OF_OPTIONS = frozenset(("ash", "bash", "dash", "ksh", "ksh93", "mksh", "sh", "yash", "zsh"))


def arguments(launch: Launch, claim: str) -> list[str]:
    """The argument list that runs the attempt."""
    return [SHELL, "-c", TEXT, "sh", claim, launch.cwd, *_command(launch)]


def variables(environment: Mapping[str, str], token: str) -> dict[str, str]:
    """The wrapper's environment: the job's and its token, without what its own shell must not act upon."""
    chosen = {**environment, TOKEN_VARIABLE: token}
    for name in kept_from_the_wrapper(environment):
        del chosen[name]
    return chosen


def plain_words(command: str) -> list[str] | None:
    """The words of a command that no shell is needed for; None: bash must read it."""
    if _PLAIN_WORDS.fullmatch(command) is None:
        return None
    words = command.split()
    return None if words[0] in _NEEDS_BASH and not _plain_echo(words) else words


def _plain_echo(words: list[str]) -> bool:
    """Shells differ about options of echo and about backslashes, and plain words hold no backslashes."""
    return words[0] == "echo" and not any(word.startswith("-") for word in words[1:2])


def _command(launch: Launch) -> list[str]:
    environment = launch.environment
    kept_variables = kept_from_the_wrapper(environment)
    if not (launch.shell or launch.login_shell or kept_variables) and "PATH" in environment:
        words = plain_words(launch.command)
        if words is not None:
            return words
    return [*handed_over(kept_variables, environment), *shell_call(launch)]


def shell_call(launch: Launch) -> list[str]:
    shell = launch.shell or _default_shell(launch.environment.get("PATH"))
    options = ["-l", "-c"] if launch.login_shell else ["-c"]
    if shell.rpartition("/")[2] in _KNOW_END_OF_OPTIONS:
        options.append("--")
    return [shell, *options, launch.command]


def kept_from_the_wrapper(environment: Mapping[str, str]) -> list[str]:
    # One look at all names together is what nearly every start pays.
    all_names = "\n".join(environment)
    if "BASH" not in all_names and "SHELLOPTS" not in all_names:
        return []
    return [name for name in environment if name.startswith(_EXPORTED_FUNCTION) or name in _SETS_UP_BASH]


def handed_over(names: list[str], environment: Mapping[str, str]) -> list[str]:
    """Gives the command what dash would drop (functions have no names it knows) and bash as sh would act upon."""
    return ["/usr/bin/env", *(f"{name}={environment[name]}" for name in names)] if names else []


@lru_cache(maxsize=64)
def _default_shell(search_path: str | None) -> str:
    import shutil  # brings three compressors along

    if search_path and shutil.which("bash", path=search_path):
        return "bash"
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or SHELL
