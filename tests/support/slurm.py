"""A real Slurm cluster on this machine, its accounting, and jobs that run in it while parts of it are killed."""

from __future__ import annotations

import fcntl
import getpass
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

from .sessions import alive, all_pids
from .waiting import until

# ---- The configuration of a Slurm cluster on this machine's loopback, with GPUs that are not there ----


CLUSTER = "gputui"
PARTITION = "gpu"
SCAVENGE, URGENT = "scavenge", "urgent"
"""Jobs of `urgent` take others' GPUs: those of `scavenge` are put back into the queue, the rest are cancelled."""
PREEMPTION = {SCAVENGE: "PriorityTier=1 PreemptMode=REQUEUE", URGENT: "PriorityTier=9 PreemptMode=OFF"}

_SLURM = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.sock
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/log/slurmctld
SlurmdLogFile={directory}/log/slurmd-%n
MailProg=/bin/true
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=5,bf_max_job_test=2000,default_queue_depth=2000
PriorityType=priority/multifactor
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc={directory}/log/ended
AccountingStoreFlags=job_comment
"""

SETTINGS: Mapping[str, str] = {
    "ProctrackType": "proctrack/pgid",
    "TaskPlugin": "task/none",
    "AccountingStorageType": "accounting_storage/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "ReturnToService": "2",
    "JobRequeue": "0",
    "KillWait": "60",  # a busy machine needs time to end a job by itself; `clear` kills what a test leaves
    "MessageTimeout": "5",  # a dead controller is given up after about twice that
    "SlurmctldTimeout": "30",
    "SlurmdTimeout": "60",  # a busy machine is no dead node
    "BatchStartTimeout": "60",
    "InactiveLimit": "0",
    "WaitTime": "0",
    "MinJobAge": "300",  # an ended job is listed so long
    "MaxJobCount": "20000",
    "DefMemPerCPU": "64",
}
"""What a test may want otherwise."""


class Node:
    """A node of the cluster: a slurmd of its own, with this many GPUs."""

    def __init__(self, name: str, port: int, gpus: int) -> None:
        self.name, self.port, self.gpus = name, port, gpus


def write(directory: Path, port: int, nodes: Sequence[Node], settings: Mapping[str, str]) -> Path:
    """Returns the file that SLURM_CONF is to name."""
    for room in ("etc", "log", "state", "spool", "devices"):
        (directory / room).mkdir(exist_ok=True)
    host = socket.gethostname().partition(".")[0]
    lines = [_SLURM.format(cluster=CLUSTER, host=host, port=port, directory=directory, user=user())]
    lines += [f"{name}={value}\n" for name, value in {**SETTINGS, **settings}.items()]
    for node in nodes:
        (directory / "spool" / node.name).mkdir(exist_ok=True)
        lines.append(
            f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node.port} CPUs=16 RealMemory=64000 "
            f"Gres=gpu:{node.gpus} State=UNKNOWN\n"
        )
    lines.append(f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=CANCEL\n")
    lines.append(f"PartitionName=short Nodes={nodes[0].name} MaxTime=10 State=UP\n")
    lines += [f"PartitionName={name} Nodes=ALL MaxTime=INFINITE State=UP {rest}\n" for name, rest in PREEMPTION.items()]
    (directory / "etc/gres.conf").write_text("".join(_devices(directory, node) for node in nodes))
    # No ConstrainDevices: the GPUs are not there. Slurm's own directory, so that clusters side by side stay apart.
    limits = "ConstrainRAMSpace=yes\n" if settings.get("TaskPlugin") == "task/cgroup" else ""
    (directory / "etc/cgroup.conf").write_text(f"CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n{limits}")
    conf = directory / "etc/slurm.conf"
    conf.write_text("".join(lines))
    return conf


def _devices(directory: Path, node: Node) -> str:
    """Slurm wants device files and sets CUDA_VISIBLE_DEVICES for those alone; a link to one needs no root."""
    place = directory / "devices" / node.name
    place.mkdir(exist_ok=True)
    for index in range(node.gpus):
        link = place / f"nvidia{index}"
        if not link.is_symlink():
            link.symlink_to("/dev/null")
    return f"NodeName={node.name} Name=gpu File={place}/nvidia[0-{node.gpus - 1}]\n"


def user() -> str:
    try:
        return getpass.getuser() if os.geteuid() else "root"
    except (KeyError, OSError):
        return str(os.geteuid())


# ---- A cluster's accounting on this machine ----


ACCOUNTING_PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")
_DATABASE = """
create database slurm;
create user 'slurm'@'127.0.0.1' identified by 'slurm';
grant all on slurm.* to 'slurm'@'127.0.0.1';
"""
_DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={directory}/log/slurmdbd
PidFile={directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""


def missing_accounting(path: str) -> str | None:
    absent = [program for program in ACCOUNTING_PROGRAMS if shutil.which(program, path=path) is None]
    return f"there is no {absent[0]} (as root: apt-get install slurmdbd mariadb-server)" if absent else None


class Accounts:
    """`lines` are sacctmgr's: what the cluster's accounting knows."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self._port, self._database = _free_ports(2)

    def settings(self, directory: Path) -> dict[str, str]:
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self._port),
            "AccountingStoragePass": f"{directory}/munge.sock",
            "AccountingStorageEnforce": "associations,limits,qos",
        }

    def begin(self, cluster: Cluster, user: str) -> None:
        """Before the controller, which wants to find it."""
        self._begin_database(cluster.directory / "db", cluster, user)
        host = socket.gethostname().partition(".")[0]
        conf = cluster.directory / "etc/slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(
            _DAEMON.format(directory=cluster.directory, host=host, port=self._port, user=user, database=self._database)
        )
        cluster.start_daemon("slurmdbd", "-D")
        until(lambda: cluster.answers("sacctmgr", "-i", "add", "cluster", "gputui"), "slurmdbd answers")
        for line in self._lines:
            cluster.ask("sacctmgr", "-i", *line.split())

    def _begin_database(self, directory: Path, cluster: Cluster, user: str) -> None:
        own = ("--no-defaults", f"--datadir={directory}", f"--user={user}")
        words = ("mariadb-install-db", *own, "--auth-root-authentication-method=normal", "--skip-test-db")
        subprocess.run(words, env=cluster.environment, capture_output=True, check=True)
        where = (f"--socket={directory}/socket", f"--port={self._database}", "--bind-address=127.0.0.1")
        cluster.start_daemon("mariadbd", *own, *where)
        until(
            lambda: cluster.answers("mariadb", "--no-defaults", "-uroot", where[0], "-e", _DATABASE),
            "the database answers",
        )


# ---- A real Slurm cluster on this machine ----


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
    if (reason := missing() or (missing_accounting(_PATH) if accounts is not None else None)) is not None:
        raise SlurmUnavailable(reason)
    with ExitStack() as stack:
        if tracker == "cgroup":
            stack.enter_context(_control_groups())
        directory = Path(tempfile.mkdtemp(prefix="gputui-slurm-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        chosen = {**(settings or {}), "ProctrackType": f"proctrack/{tracker}"}
        made = Cluster(directory, [gpus] * nodes, chosen, accounts)
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
        self, directory: Path, gpus: Sequence[int], settings: Mapping[str, str], accounts: Accounts | None = None
    ) -> None:
        self.directory = directory
        self.settings = {**settings, **(accounts.settings(directory) if accounts is not None else {})}
        self._accounts = accounts
        self.conf = directory / "etc/slurm.conf"
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
        write(self.directory, self._port, self.nodes, self.settings)
        key = self.directory / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.directory}/munge.sock",
            f"--pid-file={self.directory}/munged.pid", f"--seed-file={self.directory}/munge.seed", "--num-threads=2",
            f"--log-file={self.directory}/log/munged",
        )  # fmt: skip
        self._await(lambda: (self.directory / "munge.sock").exists(), "munged listens")
        if self._accounts is not None:
            self._accounts.begin(self, user())
        self.start_controller()
        for node in self.nodes:
            self.start_node(node.name)

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
        for log in sorted((self.directory / "log").glob("*")):
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
        """Every live process with this in its environment, beside the cluster's directory; by default, its jobs'."""
        directory = os.fsencode(str(self.directory))
        return [pid for pid in all_pids() if pid != os.getpid() and alive(pid) and _bears(pid, directory, mark)]

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

    def signal_controller(self, number: int) -> None:
        self._daemons["slurmctld"].send_signal(number)

    def kill_node(self, name: str, number: int = signal.SIGKILL) -> None:
        """The daemon alone: what runs there goes on."""
        self._end(name, number)

    def _start(self, program: str, *words: str, called: str | None = None) -> None:
        """`setpriv`: a test that is killed leaves no daemon behind."""
        found = shutil.which(program, path=_PATH)
        assert found is not None
        with open(self.directory / "log" / f"{called or program}.said", "ab") as said:
            self._daemons[called or program] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", found, *words],
                env=self.environment,
                cwd=self.directory,
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
        self._try("scontrol", "update", f"partition={PARTITION}", "state=UP")
        with suppress(AssertionError):  # killing is faster than asking Slurm, which takes 4 s
            until(self._is_idle, "the cluster is idle again", seconds=3)
            return
        self._try("scancel", "-f", "--user", user())
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
