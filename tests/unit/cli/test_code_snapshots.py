"""Snapshots of code: jobs run what was there when they were added, and the user's repository never changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Home, reap
from support.waiting import until

import gputui

Done = subprocess.CompletedProcess[str]
TRAIN = "python3 train.py"


class Project:
    """A git work tree, and the session of a user in one of its directories."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.directory = top / "exp"
        self.directory.mkdir(parents=True)
        self.home = Home(self.directory, "gputui_run")
        self.checkouts = self.home.private / "code" / "checkouts"
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "a@example.org")
        self.git("config", "user.name", "A")
        self.code("committed")
        self.git("add", ".")
        self.git("commit", "-qm", "start")
        self.code("changed")

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.top, check=True, capture_output=True, text=True).stdout

    def code(self, says: str) -> None:
        (self.directory / "train.py").write_text(f"print({says!r})\n")

    def __call__(self, *words: str, status: int = 0, **variables: str) -> Done:
        done = subprocess.run(
            [*GPUTUI, *words],
            cwd=self.directory,
            env=os.environ | {"GPUTUI_GPUS": "cpu:4"} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done
        return done

    def show(self, job: int) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self("show", str(job), "--json").stdout)
        return shown

    def ended(self, *jobs: int) -> list[str]:
        """Wait for jobs and return what each has printed."""
        self("wait", *map(str, jobs))
        return list(map(self.printed, jobs))

    def printed(self, job: int) -> str:
        log = self.home.root / f"job_{job}" / f"job_{job}.OUT"
        return log.read_text().strip() if log.exists() else ""

    def snapshots(self) -> set[str]:
        return {name for name in os.listdir(self.checkouts) if len(name) == 40} if self.checkouts.exists() else set()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "project")
    yield project
    project.home.end()
    assert project.home.members() == []
    reap()


def test_a_job_and_its_reruns_run_the_code_that_was_there_when_it_was_added(project: Project) -> None:
    project("add", "--snapshot", "--hold", "--", TRAIN)
    project.code("edited later")
    project("add", "--", TRAIN)
    project("release", "0")
    assert project.ended(0, 1) == ["changed", "edited later"]
    until(lambda: not project.snapshots(), "nothing needs the checkout, so it is removed")
    project("rerun", "0")
    assert project.ended(0) == ["changed"]
    code = project.show(0)["spec"]["code"]
    assert (code["top"], code["prefix"], code["changed"]) == (str(project.top), "exp/", True)
    shown = f"snapshot {code['tree'][:10]} of {project.top} (commit {code['head'][:10]}, with uncommitted changes)"
    assert shown in project("show", "0").stdout
    project.git("commit", "-qam", "later")
    project("rerun", "0")
    project.ended(0)
    info = project.home.root / "job_0" / "INFO"
    until(lambda: "attempt: 3\n" in info.read_text(), "INFO is written")
    assert f"git commit: {code['head']}\ngit dirty: uncommitted changes in snapshot" in info.read_text()


def test_a_snapshot_does_not_change_the_user_s_repository(project: Project) -> None:
    (project.top / "new.txt").write_text("untracked")
    project.git("add", "exp/train.py")
    for hook in ("post-index-change", "pre-commit", "post-checkout"):
        (project.top / ".git" / "hooks" / hook).write_text("#!/bin/sh\ntouch .git/hook-ran\n")
        (project.top / ".git" / "hooks" / hook).chmod(0o755)
    project.code("changed again")

    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (project.top / ".git").rglob("*") if path.is_file()}

    before = state()
    project("add", "--snapshot", "--hold", "--", TRAIN, GIT_DIR="/nowhere", GIT_INDEX_FILE="/nowhere/index")
    assert state() == before
    assert project.git("status", "--short").split("\n")[:2] == ["MM exp/train.py", "?? new.txt"]


def test_a_checkout_has_the_tracked_and_untracked_files_but_no_ignored_ones(project: Project) -> None:
    (project.top / ".gitignore").write_text("*.bin\n")
    (project.top / "data.bin").write_text("ignored")
    (project.top / "kept.bin").write_text("ignored, but tracked")
    (project.top / "gone.txt").write_text("tracked, but deleted")
    project.git("add", "-f", ".gitignore", "kept.bin", "gone.txt")
    project.git("config", "core.autocrlf", "input")
    project.git("config", "core.fileMode", "false")
    project("add", "--hold", "--", "true")
    for directory in (project.home.root, project.home.private):
        (directory / ".gitignore").unlink()  # as in a directory that was there before the session
    (project.top / "gone.txt").unlink()
    (project.top / "a 'b'\n\\ü").write_text("odd")
    (project.top / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (project.top / "run.sh").write_text("#!/bin/sh\n")
    (project.top / "run.sh").chmod(0o755)
    (project.top / "link").symlink_to("nowhere")
    os.mkfifo(project.top / "fifo")
    project("add", "--snapshot", "--", "cd .. && find . -type f -o -type l | sort && test -x run.sh && od -c crlf.txt")
    (listed,) = project.ended(1)
    assert listed.split("\n0000000")[0].split("\n") == [
        *sorted(["./.gitignore", "./a 'b'", "\\ü", "./crlf.txt", "./exp/train.py", "./kept.bin", "./link", "./run.sh"])
    ]
    assert r"\r" in listed


def test_jobs_of_one_state_share_a_checkout_which_stays_until_the_last_has_ended(project: Project) -> None:
    gate = project.home.waits
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: project("add", "--snapshot", "--", f"pwd; {gate}"), range(4)))
    (project.top / "new.txt").write_text("another state")
    project("add", "--snapshot", "--", f"pwd; {gate}")
    until(lambda: all(map(project.printed, range(4))), "four jobs run")
    assert len(set(map(project.printed, range(4)))) == 1 == len(project.snapshots())
    project("kill", "--now", "0", "1", "2", "-y")
    until(lambda: project.printed(4), "the fifth runs")
    assert len(project.snapshots()) == 2
    project.home.gate.touch()
    project.ended(3, 4)
    until(lambda: not project.snapshots(), "both are removed")
    assert [name for name in os.listdir(project.checkouts) if not name.startswith(".removed-")] == []


def test_files_that_jobs_write_into_a_checkout_are_kept(project: Project) -> None:
    project("add", "--snapshot", "--", "echo weights > model.pt; mkdir __pycache__; touch __pycache__/x.pyc; pwd")
    (directory,) = project.ended(0)
    project("add", "--snapshot", "--", "mkdir __pycache__; touch __pycache__/x.pyc")
    project.code("another state")
    project("add", "--snapshot", "--", "mkdir __pycache__; touch __pycache__/x.pyc")
    project.ended(1, 2)
    until(lambda: len(project.snapshots()) == 1, "the checkout without new files is removed")
    assert Path(directory, "model.pt").read_text() == "weights\n"


def test_the_next_owner_removes_what_the_last_one_left(project: Project) -> None:
    project("add", "--snapshot", "--", TRAIN)
    project.ended(0)
    until(lambda: not project.snapshots(), "removed")
    project("stop", "-y")
    tree = project.show(0)["spec"]["code"]["tree"]
    subprocess.run(["sh", project.checkouts.parent / "checkout", tree], check=True)
    assert project.snapshots() == {tree}
    (project.checkouts / ".new-of-a-killed-job").mkdir()
    project("add", "--", "true")
    until(lambda: not os.listdir(project.checkouts), "removed by the next owner")


def test_an_owner_that_leaves_removes_what_its_last_job_used(project: Project, tmp_path: Path) -> None:
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *"ls-files -z -o -m"*) sleep 1 ;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    slow.chmod(0o755)
    (project.directory / "jobs.txt").write_text(f"{TRAIN}\n")
    project("run", "--no-daemon", "--snapshot", "jobs.txt", PATH=f"{slow.parent}:{os.environ['PATH']}")
    assert project.printed(0) == "changed"
    assert os.listdir(project.checkouts) == []


def refused(project: Project, *words: str) -> str:
    message = project("add", "--snapshot", *words, "--", TRAIN, status=2).stderr.splitlines()[-1]
    assert not (project.home.private / "code" / "objects").exists()
    assert json.loads(project("ls", "--json").stdout)["jobs"] == []
    return message


def test_what_cannot_be_snapshotted_is_refused_in_one_sentence(project: Project, tmp_path: Path) -> None:
    where = f"gputui: cannot take a snapshot of {project.top}: "
    project("add", "--hold", "--", "true")  # so that there is a session
    project("rm", "0", "-y")
    plain = tmp_path / "plain"
    plain.mkdir()
    words = f"gputui: {plain} is not in a git work tree, which a snapshot needs; omit snapshot"
    assert refused(project, "--cwd", str(plain)) == words
    (project.top / "big").write_bytes(bytes(3_000_000))
    (project.directory / "gputui.toml").write_text("snapshot_limit = '1M'\n")
    assert refused(project).startswith(f"{where}3 files with 3 MB; the limit is 1 MB; add data to .gitignore or raise")
    (project.directory / "gputui.toml").unlink()
    (project.top / ".gitattributes").write_text("*.pt filter=lfs\n")
    (project.top / "x.pt").touch()
    assert refused(project) == f"{where}x.pt uses Git LFS, which is not supported; omit snapshot"
    (project.top / ".gitattributes").unlink()
    inner = project.top / "vendor"
    inner.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
    (inner / "f").touch()
    nested = f"{where}vendor is a repository of its own, and submodules are not supported; omit snapshot"
    assert refused(project) == nested
    subprocess.run("git add f && git -c user.name=A -c user.email=a@b commit -qm x", shell=True, cwd=inner, check=True)
    project.git("-c", "advice.addEmbeddedRepo=false", "add", "vendor")
    assert refused(project) == nested
    without_git = tmp_path / "bin"
    without_git.mkdir()
    (without_git / "python3").symlink_to(sys.executable)
    message = project("add", "--snapshot", "--", TRAIN, status=2, PATH=str(without_git)).stderr
    assert message.endswith(f"cannot take a snapshot of {project.directory}: git is not installed\n")


def test_every_way_of_adding_jobs_takes_a_snapshot(project: Project, tmp_path: Path) -> None:
    (project.directory / "jobs.txt").write_text(f"#: snapshot\n{TRAIN}\n{TRAIN} plain\n")
    (project.directory / "jobs.toml").write_text(f"[[job]]\ncommand = '{TRAIN} toml'\nsnapshot = true\n")
    (project.directory / "jobs.py").write_text(
        f"def yielder():\n    yield {{'command': '{TRAIN} yielded', 'snapshot': True}}\n"
    )
    project("run", "--no-daemon", "jobs.txt", "jobs.toml")
    project("run", "--no-daemon", "jobs.py")
    project("sweep", TRAIN + " {x}", "-p", "x", "1", "2", "--add", "--snapshot")
    (project.directory / "gputui.toml").write_text("snapshot = true\n")
    project("add", "--", f"{TRAIN} configured")
    script = "import gputui\nsession = gputui.Session()\nprint(session.add('python3 train.py api', snapshot=True).id)"
    subprocess.run([sys.executable, "-c", script], cwd=project.directory, check=True, stdout=subprocess.DEVNULL)
    jobs = json.loads(project("ls", "--json").stdout)["jobs"]
    project("wait")
    with_code = {job["id"]: "code" in project.show(job["id"])["spec"] for job in jobs}
    commands = {job["command"].removeprefix(TRAIN).strip(): with_code[job["id"]] for job in jobs}
    assert commands == {
        "": True, "plain": False, "toml": True, "yielded": True, "1": True, "2": True, "configured": True, "api": True,
    }  # fmt: skip
    assert {job["state"] for job in json.loads(project("ls", "--json").stdout)["jobs"]} == {"succeeded"}


def test_a_call_of_a_python_function_has_no_snapshot() -> None:
    with pytest.raises(ValueError, match="snapshot is for commands"):
        gputui.Session(start=False).submit(print, (), {}, {"snapshot": True})


def test_loading_a_file_again_reruns_failed_jobs_with_the_new_code_and_leaves_waiting_ones(project: Project) -> None:
    (project.directory / "train.py").write_text("import nothing\n")
    (project.directory / "jobs.txt").write_text(f"#: snapshot\n{TRAIN}\n#: snapshot hold\n{TRAIN} held\n")
    project("run", "--no-daemon", "jobs.txt", status=1)
    held = project.show(1)["spec"]["code"]
    project.code("fixed")
    project("run", "--no-daemon", "jobs.txt", status=1)  # the held job has not run
    assert project.printed(0) == "fixed"
    assert project.show(1)["spec"]["code"] == held
    project("reload", "-y")
    assert project.show(1)["spec"]["code"] == held


def test_an_edited_directory_gets_a_snapshot_of_its_own(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other")
    project("add", "--snapshot", "--hold", "--", TRAIN)
    other.code("the other")
    editor = f"sed -i 's|^cwd = .*|cwd = \"{other.directory}\"|'"
    project("edit", "0", EDITOR=editor)
    project("release", "0")
    assert project.ended(0) == ["the other"]


def test_diff_compares_code_parameters_settings_and_environment(project: Project) -> None:
    project("add", "--snapshot", "--hold", "--", f"{TRAIN} --lr 0.1", API_TOKEN="one", SEED="1")
    project.code("edited")
    project("add", "--snapshot", "--hold", "--priority", "50", "--", f"{TRAIN} --lr 0.2", API_TOKEN="two", SEED="2")
    project("add", "--hold", "--", TRAIN)
    text = project("diff", "0", "1").stdout
    assert f"  command: {TRAIN} --lr 0.1 → {TRAIN} --lr 0.2\n" in text
    assert "  priority: none → 50\n" in text
    assert "  SEED: 1 → 2\n" in text
    assert "-print('changed')\n+print('edited')\n" in text
    assert "exp/train.py | 2 +-" in project("diff", "0", "1", "--stat").stdout
    answer = json.loads(project("diff", "0", "1", "--json").stdout)
    assert answer["environment"]["API_TOKEN"] == ["••••••", "••••••"]
    assert answer["code"].startswith("diff --git a/exp/train.py b/exp/train.py\n")
    assert "code: #2 added without --snapshot" in project("diff", "0", "2").stdout
    assert project("diff", "0", "0").stdout.endswith("code: the same\n")
    assert "name two jobs: gputui diff 12 15" in project("diff", "0", status=2).stderr


def test_a_work_tree_without_a_commit_has_a_snapshot_too(project: Project) -> None:
    shutil.rmtree(project.top / ".git")
    project.git("init", "-q")
    project("add", "--snapshot", "--", TRAIN)
    shutil.rmtree(project.top / ".git")
    assert project.ended(0) == ["changed"]
    assert "(no commit, with uncommitted changes)" in project("show", "0").stdout
