"""A real Slurm cluster on this machine: munged, slurmctld and a slurmd for each node, in a folder and on ports of its
own.

The daemons are children of whoever made it and end with it, by pid; nothing in /etc is read or written, root is not
needed. Several may run side by side.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from . import slurm_accounts, slurm_conf
from .sessions import alive, all_pids
from .slurm_accounts import Accounts
from .slurm_conf import Node
from .waiting import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_TRIES = 3
_OF_JOBS = b"SLURM_JOB_ID="


class SlurmUnavailable(Exception):
    """Why there is no cluster to be had here, in a sentence."""


def missing() -> str | None:
    """What keeps a cluster from being had here, before anything is tried."""
    absent = [program for program in (*PROGRAMS, "setpriv") if shutil.which(program, path=_PATH) is None]
    return f"there is no {absent[0]} (as root: tests/slurm/cluster.py install)" if absent else None


@contextmanager
def cluster(
    nodes: int = 3, gpus: int = 4, settings: Mapping[str, str] | None = None, tracker: str = "pgid",
    accounts: Accounts | None = None,
) -> Iterator[Cluster]:  # fmt: skip
    """One that is proven to run jobs; it is gone with all its jobs afterwards."""
    if (reason := missing() or (slurm_accounts.missing(_PATH) if accounts is not None else None)) is not None:
        raise SlurmUnavailable(reason)
    with ExitStack() as stack:
        if tracker == "cgroup":
            stack.enter_context(_control_groups())
        folder = Path(tempfile.mkdtemp(prefix="gputui-slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        chosen = {**(settings or {}), "ProctrackType": f"proctrack/{tracker}"}
        made = Cluster(folder, [gpus] * nodes, chosen, accounts)
        stack.callback(made.down)
        made.up()
        yield made


@contextmanager
def lent(**wanted: Any) -> Iterator[Cluster]:
    """The same for a test, which is skipped where there is none to be had, unless SLURM_TESTS is `required`."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(cluster(**wanted))
        except SlurmUnavailable as error:
            if os.environ.get("SLURM_TESTS") == "required":
                raise
            pytest.skip(str(error))
        yield made


class Cluster:
    """`conf` is what SLURM_CONF names; `environment` is what its commands need."""

    def __init__(
        self, folder: Path, gpus: Sequence[int], settings: Mapping[str, str], accounts: Accounts | None = None
    ) -> None:
        self.folder = folder
        self.settings = {**settings, **(accounts.settings(folder) if accounts is not None else {})}
        self._accounts = accounts
        self.conf = folder / "etc/slurm.conf"
        self._gpus = gpus
        self.nodes: list[Node] = []
        self._port = 0
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _PATH}

    # Coming and going

    def up(self) -> None:
        """Another's ports may be chosen by chance: then once more with others."""
        for tried in range(_TRIES):
            try:
                self._begin()
                self._prove()
                return
            except SlurmUnavailable as error:
                self.down()
                if tried == _TRIES - 1 or "Address already in use" not in str(error):
                    raise

    def _begin(self) -> None:
        self._port, *ports = _free_ports(1 + len(self._gpus))
        self.nodes = [Node(f"n{at}", *facts) for at, facts in enumerate(zip(ports, self._gpus, strict=True), start=1)]
        self.write_conf()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock",
            f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed", "--num-threads=2",
            f"--log-file={self.folder}/log/munged",
        )  # fmt: skip
        self._await(lambda: (self.folder / "munge.sock").exists(), "munged listens")
        if self._accounts is not None:
            self._accounts.begin(self, slurm_conf.user())
        self.start_controller()
        for node in self.nodes:
            self.start_node(node.name)

    def write_conf(self, **settings: str) -> None:
        """With what is to be otherwise; daemons that run take it by `scontrol reconfigure` or when restarted."""
        self.settings.update(settings)
        slurm_conf.write(self.folder, self._port, self.nodes, self.settings)

    @contextmanager
    def patience(self, seconds: int = 60) -> Iterator[None]:
        """What Slurm tells to end has so much time before it is killed: a busy machine may need it."""
        usual = slurm_conf.SETTINGS["KillWait"]
        self._reconfigure(KillWait=str(seconds))
        try:
            yield
        finally:
            self._reconfigure(KillWait=usual)

    def _reconfigure(self, **settings: str) -> None:
        self.write_conf(**settings)
        until(self.listening, "the controller answers")
        self.ask("scontrol", "reconfigure")

    def _prove(self) -> None:
        """Idle is not ready: the scheduler begins some seconds after its daemon. A job over all nodes tells."""
        names = {node.name for node in self.nodes}
        self._await(lambda: set(self._try("sinfo", "-hNt", "idle", "-o", "%N").split()) == names, "all nodes are idle")
        wide = ("-N", str(len(names)), "--gres=gpu:1", "-D", "/", "-o", "/dev/null")
        proof = self.ask("sbatch", "--parsable", "-J", "proof", *wide, "--wrap", "true").strip()
        self._await(lambda: self.state(proof) == "COMPLETED", "a job over all nodes has run")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            if (words := self._fatal()) is not None:
                raise SlurmUnavailable(f"Slurm cannot run here: {words}")
            return condition()

        try:
            until(looked, what)
        except AssertionError as error:
            raise SlurmUnavailable(f"Slurm does not come up here: {error}") from None

    def _fatal(self) -> str | None:
        """What a daemon that has ended, or will not work, said of it."""
        for log in sorted((self.folder / "log").glob("*")):
            for line in log.read_text(errors="replace").splitlines():
                if "fatal:" in line or "Address already in use" in line:
                    return line
        return None

    def down(self) -> None:
        """By pid: the daemons first, so that nothing is started again, then what they started."""
        for name in sorted(self._daemons, key=lambda name: name == "munged"):
            self._end(name, signal.SIGKILL)
        until(lambda: not self._kill_all(b""), "whatever knows of the cluster is gone")
        for node in self.nodes:
            _remove_groups(f"slurm_{node.name}")

    def _kill_all(self, mark: bytes) -> list[int]:
        for pid in (left := self.processes(mark)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def processes(self, mark: bytes = _OF_JOBS) -> list[int]:
        """Every live process with this in its environment, beside the cluster's folder; by default, its jobs'."""
        folder = os.fsencode(str(self.folder))
        return [pid for pid in all_pids() if pid != os.getpid() and alive(pid) and _bears(pid, folder, mark)]

    # Its daemons

    def start_daemon(self, program: str, *words: str) -> None:
        self._start(program, *words)

    def start_controller(self) -> None:
        self._start("slurmctld", "-D", "-f", str(self.conf))

    def start_node(self, name: str, *, rebooted: bool = False) -> None:
        """`rebooted`: it says that its machine was started with it."""
        self._start("slurmd", "-D", "-f", str(self.conf), "-N", name, *(["-b"] if rebooted else []), called=name)

    def kill_controller(self, number: int = signal.SIGKILL) -> None:
        self._end("slurmctld", number)

    def kill_node(self, name: str, number: int = signal.SIGKILL) -> None:
        """The daemon alone: what runs there goes on."""
        self._end(name, number)

    def _start(self, program: str, *words: str, called: str | None = None) -> None:
        """`setpriv`: a test that is killed leaves no daemon behind."""
        found = shutil.which(program, path=_PATH)
        assert found is not None
        with open(self.folder / "log" / f"{called or program}.said", "ab") as said:
            self._daemons[called or program] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", found, *words],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _end(self, name: str, number: int) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.send_signal(number)
            daemon.wait()

    # Its commands

    def ask(self, *words: str, timeout: float = 60.0) -> str:
        """What the command prints; fails when it does."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def answers(self, *words: str) -> bool:
        """Whether the command does what it is told, once whom it asks is there."""
        done = subprocess.run(words, env=self.environment, capture_output=True, timeout=60, check=False)
        return done.returncode == 0

    def _try(self, *words: str) -> str:
        """A daemon that does not listen yet is nothing unusual."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else ""

    def fill(self, partition: str) -> None:
        """All GPUs of all nodes are wanted by others."""
        for node in self.nodes:
            self.submit("sleep 1000", "-p", partition, "-w", node.name, "--exclusive", f"--gres=gpu:{node.gpus}")

    def submit(self, command: str, *options: str) -> str:
        """A plain job of a GPU; returns its number."""
        plain = ("--parsable", "--gres=gpu:1", "-o", "/dev/null", "-D", "/")
        return self.ask("sbatch", *plain, *options, "--wrap", command).strip()

    def state(self, job: str) -> str:
        return self._try("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def await_state(self, job: str, state: str) -> None:
        until(lambda: self.state(job) == state, f"Slurm job {job} is {state}")

    def listening(self) -> bool:
        return "UP" in self._try("scontrol", "ping")

    def clear(self) -> None:
        """Nothing of a test is left to the next one: no job, no node that is closed."""
        for name in [node.name for node in self.nodes if node.name not in self._daemons]:
            self.start_node(name)
        if "slurmctld" not in self._daemons:
            self.start_controller()
        until(self.listening, "the controller answers")
        self._try("scontrol", "update", f"partition={slurm_conf.PARTITION}", "state=UP")
        with suppress(AssertionError):  # killing is faster than asking Slurm, which takes 4 s
            until(self._is_idle, "the cluster is idle again", seconds=3)
            return
        self._try("scancel", "-f", "--user", slurm_conf.user())
        until(self._is_idle, "the cluster is idle again")

    def _is_idle(self) -> bool:
        if left := self._try("squeue", "-h", "-o", "%A").split():
            self._try("scancel", "-f", "-t", "PENDING", *left)
            self._kill_all(_OF_JOBS)
            return False
        states = dict(line.split() for line in self._try("sinfo", "-hN", "-o", "%N %T").splitlines())
        for node in self.nodes:
            if states.get(node.name) != "idle":
                self._try("scontrol", "update", f"node={node.name}", "state=resume")
        return set(states.values()) == {"idle"} and not self._kill_all(_OF_JOBS)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _bears(pid: int, *marks: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return all(mark in environment for mark in marks)


@contextmanager
def _control_groups() -> Iterator[None]:
    """The groups are named after nodes: one cluster at a time has them."""
    proof = Path("/sys/fs/cgroup/freezer") / f"gputui-{os.getpid()}"
    try:
        proof.mkdir()
        proof.rmdir()
    except OSError as error:
        raise SlurmUnavailable(f"no control groups can be made here ({error.strerror})") from None
    with open(Path(tempfile.gettempdir()) / f"gputui-slurm-groups-{os.getuid()}.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _remove_groups(name: str) -> None:
    """Slurm leaves its control groups behind."""
    for root in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        for place, _, _ in os.walk(root, topdown=False):
            with suppress(OSError):
                os.rmdir(place)
