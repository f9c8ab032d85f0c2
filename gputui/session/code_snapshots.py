"""Snapshots of code: a git work tree as it was when a job was added, kept as git objects in the session.

`.gputui/code` is a bare repository of its own. The user's repository is only read: its index, branches, objects and
files do not change. A job runs in a checkout of its snapshot, which all jobs with the same files share.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.job import EMPTY, CodeSnapshot, Ended, JobId, JobSpec
from gputui.sources.source import BadInput, shown

if TYPE_CHECKING:
    import threading

    from gputui.core.book import Book

CODE, CHECKOUTS = "code", "checkouts"
NOT_IN_GIT = ("not a git repository", "must be run in a work tree")
SUBMODULE = b"160000"
HASH_LENGTH = 40
AS_THEY_ARE = (
    "core.autocrlf=false", "core.fileMode=true", "core.symlinks=true", "core.fsmonitor=false", "core.splitIndex=false",
    "core.hooksPath=/dev/null", "core.fsyncMethod=batch",
)  # fmt: skip
"""Options that make git store files unchanged, whatever the user's settings are, and flush them to the disk."""
TRASH, UNFINISHED = ".removed-", ".new-"
"""Prefixes of the names of checkouts that are being removed or created."""
PATIENCE = 5.0
"""Maximum number of seconds that a leaving owner waits for the removal of unneeded checkouts."""


# Taking snapshots


class GitError(Exception):
    """A git command failed. The message is git's own."""


def git(directory: str, *words: str, given: bytes | None = None, variables: Mapping[str, str] = EMPTY) -> bytes:
    """Run git in a directory and return its output. Raise GitError if it fails."""
    import subprocess  # it takes long to import

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **variables}
    try:
        done = subprocess.run(["git", "-C", directory, *words], env=environment, input=given, capture_output=True)
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"git {words[0]} failed"]
        fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        raise GitError(fatal.removeprefix("fatal: ").removeprefix("error: "))
    return done.stdout


class _WorkTree(Struct, frozen=True):
    top: str
    prefix: str
    """The directory of the job relative to the top of the work tree, ending in a slash. Empty for the top itself."""
    head: str
    head_tree: str
    files: list[bytes]
    """The tracked files, and the untracked ones that git does not ignore, relative to the top."""


def with_code(root: str | None, jobs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
    """Store the snapshots that the jobs want in the session in `root`, and return the jobs with their snapshots.

    If a snapshot cannot be taken, raise BadInput and store nothing. If `root` is None, only check whether the snapshots
    can be taken.
    """
    trees = check(root, jobs)
    if root is None:
        return tuple(jobs)
    stored: dict[str, str] = {}
    codes: dict[str, CodeSnapshot] = {}
    for cwd, tree in trees.items():
        if tree.top not in stored:
            try:
                stored[tree.top] = _store(tree, os.path.join(root, ".gputui", CODE))
            except GitError as error:
                raise BadInput(f"cannot take a snapshot of {shown(tree.top)}: {error}") from None
        hash = stored[tree.top]
        codes[cwd] = CodeSnapshot(hash, tree.top, tree.prefix, tree.head, hash != tree.head_tree)
    return tuple(replace(job, code=codes[job.cwd]) if _lacks_code(job) else job for job in jobs)


def _lacks_code(job: JobSpec) -> bool:
    return job.snapshot and job.code is None


def check(root: str | None, jobs: Iterable[JobSpec]) -> dict[str, _WorkTree]:
    """Return the work tree of each job that wants a snapshot, keyed by the directory of the job.

    Raise BadInput if a snapshot cannot be taken. `root` is the directory of the session, whose files are left out.
    """
    directories = dict.fromkeys(job.cwd for job in jobs if _lacks_code(job))
    if not directories:
        return {}
    from .config import load

    limit = load().get("snapshot_limit")[0]
    return {cwd: _work_tree(cwd, root and os.path.realpath(root), limit) for cwd in directories}


def _work_tree(cwd: str, root: str | None, limit: int) -> _WorkTree:
    """Find the files of the work tree around a directory, except those of the session in `root`."""
    try:
        top, prefix = os.fsdecode(git(cwd, "rev-parse", "--show-toplevel", "--show-prefix")).split("\n")[:2]
        tracked = git(top, "ls-files", "-z", "--stage").split(b"\0")[:-1]
        untracked = git(top, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")[:-1]
        modes = {path: about.split(b" ", 1)[0] for about, path in (line.split(b"\t", 1) for line in tracked)}
        files = _regular(top, root, [*modes, *untracked])
        filters = git(top, "check-attr", "-z", "--stdin", "filter", given=b"".join(file + b"\0" for file in files))
    except GitError as error:
        if any(words in str(error) for words in NOT_IN_GIT):
            raise BadInput(f"{shown(cwd)} is not in a git work tree, which a snapshot needs; omit snapshot") from None
        raise BadInput(f"cannot take a snapshot of {shown(cwd)}: {error}") from None
    where = f"cannot take a snapshot of {shown(top)}"
    nested = [path for path, mode in modes.items() if mode == SUBMODULE] + [
        path for path in untracked if path.endswith(b"/") and not _is_below(os.path.join(os.fsencode(top), path), root)
    ]
    if nested:
        name = shown(os.fsdecode(nested[0]).rstrip("/"))
        raise BadInput(f"{where}: {name} is a repository of its own, and submodules are not supported; omit snapshot")
    fields = filters.split(b"\0")
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value not in (b"unspecified", b"unset"):
            name, kind = shown(os.fsdecode(path)), "Git LFS" if value == b"lfs" else f"the filter {os.fsdecode(value)}"
            raise BadInput(f"{where}: {name} uses {kind}, which is not supported; omit snapshot")
    size = sum(files.values())
    if size > limit:
        raise BadInput(
            f"{where}: {counted(len(files), 'file', 'files')} with {size / 1e6:,.0f} MB; the limit is "
            f"{limit / 1e6:,.0f} MB; add data to .gitignore or raise snapshot_limit"
        )
    try:
        head, head_tree = git(top, "rev-parse", "HEAD", "HEAD^{tree}").decode().split()
    except GitError:  # there is no commit yet
        head = head_tree = ""
    return _WorkTree(top, prefix, head, head_tree, list(files))


def _regular(top: str, root: str | None, paths: Iterable[bytes]) -> dict[bytes, int]:
    """Return the sizes of those paths that are files or symlinks and do not belong to the session."""
    sizes: dict[bytes, int] = {}
    for path in paths:
        full = os.path.join(os.fsencode(top), path)
        with suppress(OSError):
            status = os.lstat(full)
            if (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)) and not _is_below(full, root):
                sizes[path] = status.st_size
    return sizes


def _is_below(path: bytes, root: str | None) -> bool:
    return root is not None and path.startswith(os.path.join(os.fsencode(root), b""))


def _store(tree: _WorkTree, code: str) -> str:
    """Store the files in the session's repository and return the id of their tree."""
    make_repository(code)
    index = os.path.join(code, f"index.{os.getpid()}.{os.urandom(4).hex()}")
    places = {"GIT_INDEX_FILE": index, "GIT_OBJECT_DIRECTORY": os.path.join(code, "objects")}
    settings = [word for setting in AS_THEY_ARE for word in ("-c", setting)]
    given = b"".join(file + b"\0" for file in tree.files)
    try:
        git(tree.top, *settings, "update-index", "--add", "--remove", "-z", "--stdin", given=given, variables=places)
        hash = git(tree.top, *settings, "write-tree", variables=places).decode().strip()
    finally:
        for path in (index, f"{index}.lock"):
            with suppress(OSError):
                os.unlink(path)
    if len(hash) != HASH_LENGTH:
        raise GitError("it uses SHA-256, which is not supported")
    return hash


def make_repository(code: str) -> None:
    """Create the bare repository, and the script that checks out a snapshot, unless they exist."""
    from gputui.process.directories import atomic_write

    script = os.path.join(code, "checkout")
    try:
        if not os.path.exists(os.path.join(code, "HEAD")):
            os.makedirs(code, mode=0o700, exist_ok=True)
            git(code, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", ".")
        with suppress(FileNotFoundError), open(script, encoding="utf-8") as file:
            if file.read() == SCRIPT:
                return
        atomic_write(script, SCRIPT.encode(), durable=True)
    except OSError as error:
        raise GitError(f"cannot write {code}: {error.strerror}") from None


def code_diff(root: str, before: CodeSnapshot, after: CodeSnapshot, *, stat: bool = False) -> str:
    """Return the difference between two snapshots, as `git diff` prints it. Raise GitError if it cannot be computed."""
    words = ["diff", "--no-ext-diff", "--no-color", *(["--stat=100"] if stat else []), before.tree, after.tree]
    return git(os.path.join(root, ".gputui", CODE), *words).decode(errors="replace")


# Running in a checkout


SCRIPT = """\
#!/bin/sh
# Check out the code snapshot $1 of the session, unless that was done before.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR
code=${0%/*} final=${0%/*}/checkouts/$1
[ -d "$final" ] && exit
fail() {
    rm -rf "$fresh" "$fresh.index"
    echo "gputui: cannot check out the code snapshot $1" >&2
    exit 126
}
mkdir -p "$code/checkouts" && fresh=$(mktemp -d "$code/checkouts/.new-XXXXXXXX") || fail "$1"
GIT_INDEX_FILE=$fresh.index git --git-dir="$code" --work-tree="$fresh" -c core.bare=false -c core.autocrlf=false \\
    read-tree -m -u "$1" || fail "$1"
# If another job was faster, its checkout is used.
mv "$fresh.index" "$final.index" && mv -T "$fresh" "$final" 2>/dev/null || rm -rf "$fresh"
[ -d "$final" ] || fail "$1"
"""


def in_checkout(root: str, code: CodeSnapshot, command: str) -> str:
    """Return the shell command that runs a command in the checkout of a snapshot, in the same relative directory."""
    repository = os.path.join(root, ".gputui", CODE)
    directory = os.path.join(repository, CHECKOUTS, code.tree, code.prefix)
    script = quote(os.path.join(repository, "checkout"))
    return f"/bin/sh {script} {code.tree} && cd {quote(directory)} || exit 126; {command}"


class Checkouts:
    """Removes the checkouts that no unfinished job needs. Checkouts in which jobs have written files are kept."""

    def __init__(self, root: str, book: Callable[[], Book], call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon` calls a function in the owner's thread, where the other methods are called too."""
        self._repository = os.path.join(root, ".gputui", CODE)
        self._directory = os.path.join(self._repository, CHECKOUTS)
        self._book = book
        self._call_soon = call_soon
        self._threads: list[threading.Thread] = []
        self._unused: deque[str] = deque()
        """Checkouts without files of their own, which may be removed."""

    def close(self) -> None:
        """Finish the removals that have begun, but wait for at most PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        for remove in (self._remove_unused, lambda: None):
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            remove()

    def check_all(self) -> None:
        with suppress(OSError):
            names = os.listdir(self._directory)
            self._check({name for name in names if len(name) == HASH_LENGTH})
            book = self._book()
            busy = any(book[job_id].spec.code is not None for job_id in book.active)
            for name in names:
                if name.startswith(TRASH) or (name.startswith(UNFINISHED) and not busy):
                    self._start(partial(self._delete, os.path.join(self._directory, name)))

    def check_ended(self, ended: Iterable[JobId]) -> None:
        book = self._book()
        if trees := {code.tree for job_id in ended if (code := book[job_id].spec.code) is not None}:
            self._check(trees)

    def _check(self, trees: set[str]) -> None:
        for tree in self._unneeded(trees):
            self._start(partial(self._inspect, tree))

    def _unneeded(self, trees: set[str]) -> set[str]:
        book, left = self._book(), set(trees)
        for jobs in ((book[job_id] for job_id in book.active), book):  # first the running ones, as they are few
            for job in jobs if left else ():
                if job.spec.code is not None and not isinstance(job.state, Ended):
                    left.discard(job.spec.code.tree)
                    if not left:
                        break
        return left

    def _inspect(self, tree: str) -> None:
        if not self._has_own_files(tree):
            self._unused.append(tree)
            self._call_soon(self._remove_unused)

    def _has_own_files(self, tree: str) -> bool:
        """Return whether jobs have written or changed files in a checkout. Compiled Python files do not count."""
        checkout = os.path.join(self._directory, tree)
        index = {"GIT_INDEX_FILE": f"{checkout}.index"}
        words = (f"--git-dir={self._repository}", f"--work-tree={checkout}", "-c", "core.bare=false")
        try:
            files = git(checkout, *words, "ls-files", "-z", "-o", "-m", variables=index)
        except (GitError, OSError):
            return True
        return any(not file.endswith(b".pyc") for file in files.split(b"\0")[:-1])

    def _remove_unused(self) -> None:
        """Remove checkouts unless a job needs them again. Each is renamed at once, so that a later job
        gets a new one.
        """
        while self._unused:
            tree = self._unused.popleft()
            if not self._unneeded({tree}):
                continue
            checkout = os.path.join(self._directory, tree)
            trash = os.path.join(self._directory, f"{TRASH}{os.urandom(8).hex()}")
            with suppress(OSError):
                os.rename(checkout, trash)
                os.unlink(f"{checkout}.index")
            self._start(partial(self._delete, trash))

    def _delete(self, trash: str) -> None:
        from shutil import rmtree

        rmtree(trash, ignore_errors=True)

    def _start(self, work: Callable[[], None]) -> None:
        from gputui.process.watch import NoThread, start_thread

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        with suppress(NoThread):  # the next owner tries again
            self._threads.append(start_thread(work, "gputui-checkouts"))
