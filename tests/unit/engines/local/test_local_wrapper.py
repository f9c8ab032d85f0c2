"""A command means the same as under `bash -c`, with a second shell or without."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import pytest
from support.engines import Machine

from gputui.core.events import Exited
from gputui.engines.local import spawn as wrapper
from gputui.engines.local.spawn import arguments, plain_words

TRICKY = [
    "echo 'single  quotes' \"double  $HOME\" back\\ slash", "[[ abc == a* ]] && echo matched",
    "[[ abc == b* ]] || exit 7", "true && echo yes || echo no", "false; echo $?",
    "A=1 B='two words' env | grep -E '^(A|B)=' | sort", "A=1; export A; bash -c 'echo $A'", "echo ~ ~/x",
    "echo *.txt ?.txt [ab].txt missing*", "echo {a,b}{1..3}",
    "echo $VAR \"${VAR}\" ${VAR:-x} ${UNSET:-fallback} ${VAR/v/w}", "echo ünïcödé 日本語 ā 🚀", "echo one\necho two",
    "cat <<END\nhere $VAR\nEND", "cat <<< 'here string'", "diff <(echo a) <(echo a) && echo same",
    "a=(1 2 3); echo ${#a[@]} ${a[1]}", "for i in 1 2; do echo $i; done", "echo a | tr a b", "(exit 3)", "exit 42",
    "kill -9 $$", "kill -TERM $$", "echo -n no newline", "echo -e 'a\\tb'", "echo 'a\\tb'", "printf '%s\\n' a b",
    "test 1 = 1", "-no-such-option", "--", "no-such-program --flag", "/etc/passwd", "echo # a comment",
    "# only a comment", "", "   ", "set -o pipefail; false | true", "echo ${BASH_VERSION:+bash} $0",
    "echo $- | tr -d c", "ulimit -c; umask; pwd", "time true", "! true", "source ./functions; greet you",
    ". ./functions; greet you", "./without_shebang a b", "./with_shebang a b", "echo \"c=$c d=$d r=$r\"",
    "echo > made; echo > made; cat made | wc -l", "trap 'echo bye' EXIT; exit 5",
    "read -r line; echo \"got:$line:$?\"", "type cd", "exec echo replaced",
    "echo $PPID >/dev/null; echo $$ >/dev/null; echo ok",
]  # fmt: skip
PLAIN = [
    "true", "false", "  true  ", "true --help", "echo plain words", "echo", "seq 3", "ls -1 a.txt b.txt",
    "ls missing.txt", "basename a/b/c=d,e:f@g%h+i", "env A=1 sh", "nosuchprogram", "cat a.txt\n", "expr 1 + 1",
    "sh -c exit",
]  # fmt: skip
NEEDS_BASH = [
    "echo -n x", "echo -e x", "printf x", "test a", "[ a ]", "kill 1", "cd /", "time ls", "exit 3", ". x", "A=1 ls",
    "ls *", "ls ~", "ls $HOME", "ls 'a'", "ls ; ls", "ls\nls", "ls é", "", " ",
]  # fmt: skip


@pytest.fixture
def home(machine: Machine) -> Machine:
    for name in ("a.txt", "b.txt"):
        (machine.work / name).write_text(f"{name}\n")
    (machine.work / "functions").write_text("greet() { echo hello $1; }\n")
    for name, first in (("without_shebang", "# nothing"), ("with_shebang", "#!/bin/bash")):
        script = machine.work / name
        script.write_text(f'{first}\n[[ $1 == a ]] && echo "in ${{BASH_VERSION:+bash}}: $*"\n')
        script.chmod(0o755)
    return machine


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "VAR": "v  v", "c": "1", "d": "2", "r": "3", "LC_ALL": "C.UTF-8", **more}


def under_bash(machine: Machine, command: str, variables: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", "--", command],
        cwd=machine.work,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), done.stdout


@pytest.mark.parametrize("command", TRICKY + PLAIN)
def test_a_command_means_what_it_means_under_bash(home: Machine, command: str) -> None:
    code, printed = under_bash(home, command, environment())
    assert home.run(command, environment=environment()) == Exited(code)
    assert home.out() == printed


@pytest.mark.parametrize("command", TRICKY + PLAIN)
def test_it_means_the_same_where_sh_is_bash(home: Machine, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    sh = home.directory / "sh"
    sh.symlink_to("/bin/bash")
    monkeypatch.setattr(wrapper, "SHELL", str(sh))
    code, printed = under_bash(home, command, environment())
    assert home.run(command, environment=environment()) == Exited(code)
    assert home.out() == printed


@pytest.mark.parametrize("command", PLAIN)
def test_plain_words_need_no_second_shell(home: Machine, command: str) -> None:
    assert plain_words(command) == command.split()
    assert "bash" not in arguments(home.launch(command), "claim")


@pytest.mark.parametrize("command", NEEDS_BASH)
def test_all_else_is_read_by_bash(home: Machine, command: str) -> None:
    assert plain_words(command) is None
    assert arguments(home.launch(command), "claim")[-4:] == ["bash", "-c", "--", command]


@pytest.mark.parametrize(
    ("text", "mode", "shells"),
    [
        ("#!/bin/sh\necho it ran", 0o755, []),
        ("echo ${BASH_VERSION:+it ran}", 0o755, ["bash"]),
        ("#!/bin/sh\necho it ran", 0o644, ["bash"]),
        ("#!/no/such/interpreter\n", 0o755, ["bash"]),
    ],
)
def test_a_program_given_by_path_needs_bash_only_if_the_kernel_cannot_run_it(
    home: Machine, text: str, mode: int, shells: list[str]
) -> None:
    script = home.work / "train.sh"
    script.write_text(text)
    script.chmod(mode)
    for command in ("./train.sh", str(script)):
        assert [word for word in arguments(home.launch(command), "claim") if word == "bash"] == shells
    code, printed = under_bash(home, "./train.sh", environment())
    assert home.run("./train.sh", environment=environment()) == Exited(code)
    assert home.out() == printed


@pytest.mark.parametrize("name", ["BASH_ENV", "BASH_FUNC_true%%", "SHELLOPTS"])
def test_an_environment_that_changes_bash_is_left_to_bash(machine: Machine, name: str) -> None:
    launch = machine.launch("true", environment={**os.environ, name: "x"})
    assert "bash" in arguments(launch, "claim")


def test_exported_functions_reach_the_command(machine: Machine) -> None:
    functions = {"BASH_FUNC_greet%%": "() {  echo hello $1\n}", "BASH_FUNC_cd%%": "() {  echo not this cd\n}"}
    assert machine.run("greet you; pwd", environment=environment(**functions)) == Exited(0)
    assert machine.out() == f"hello you\n{machine.work}\n"


def test_bash_env_is_read_by_the_command(machine: Machine) -> None:
    (machine.work / "env").write_text("echo from BASH_ENV\n")
    machine.run("true", environment=environment(BASH_ENV=str(machine.work / "env")))
    assert machine.out() == "from BASH_ENV\n"


def test_options_of_the_users_bash_do_not_change_the_wrapper(machine: Machine) -> None:
    assert machine.run("false; echo unreached", environment=environment(SHELLOPTS="errexit")) == Exited(1)
    assert machine.out() == ""


def test_a_named_shell_is_used_even_for_plain_words(machine: Machine) -> None:
    assert arguments(machine.launch("true", shell="dash"), "claim")[-4:] == ["dash", "-c", "--", "true"]
    assert machine.run("echo ${BASH_VERSION:-no bash}", shell="/bin/dash") == Exited(0)
    assert machine.out() == "no bash\n"


def test_a_shell_that_does_not_know_the_end_of_options_gets_none(machine: Machine) -> None:
    assert arguments(machine.launch("ls", shell="/usr/bin/fish"), "claim")[-3:] == ["/usr/bin/fish", "-c", "ls"]


def test_a_login_shell_reads_the_users_profile(machine: Machine) -> None:
    (machine.work / ".bash_profile").write_text("echo from the profile\n")
    machine.run("true", login_shell=True, environment=environment(HOME=str(machine.work)))
    assert machine.out() == "from the profile\n"


def test_without_bash_on_the_path_a_command_still_runs(machine: Machine) -> None:
    assert machine.run("exit 3", environment={"PATH": "/nowhere"}) == Exited(3)


def test_an_environment_without_a_path_is_no_obstacle(machine: Machine) -> None:
    assert machine.run("true", environment={}) == Exited(0)
