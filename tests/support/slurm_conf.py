"""The configuration of a Slurm cluster on this machine's loopback, with GPUs that are not there. Text only."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

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
AuthInfo=socket={folder}/munge.sock
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld
SlurmdLogFile={folder}/log/slurmd-%n
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
JobCompLoc={folder}/log/ended
AccountingStoreFlags=job_comment
"""

SETTINGS: Mapping[str, str] = {
    "ProctrackType": "proctrack/pgid",
    "TaskPlugin": "task/none",
    "AccountingStorageType": "accounting_storage/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "ReturnToService": "2",
    "JobRequeue": "0",
    "KillWait": "5",
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


def write(folder: Path, port: int, nodes: Sequence[Node], settings: Mapping[str, str]) -> Path:
    """Returns the file that SLURM_CONF is to name."""
    for room in ("etc", "log", "state", "spool", "devices"):
        (folder / room).mkdir(exist_ok=True)
    host = socket.gethostname().partition(".")[0]
    lines = [_SLURM.format(cluster=CLUSTER, host=host, port=port, folder=folder, user=user())]
    lines += [f"{name}={value}\n" for name, value in {**SETTINGS, **settings}.items()]
    for node in nodes:
        (folder / "spool" / node.name).mkdir(exist_ok=True)
        lines.append(
            f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={node.port} CPUs=16 RealMemory=64000 "
            f"Gres=gpu:{node.gpus} State=UNKNOWN\n"
        )
    lines.append(f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=CANCEL\n")
    lines.append(f"PartitionName=short Nodes={nodes[0].name} MaxTime=10 State=UP\n")
    lines += [f"PartitionName={name} Nodes=ALL MaxTime=INFINITE State=UP {rest}\n" for name, rest in PREEMPTION.items()]
    (folder / "etc/gres.conf").write_text("".join(_devices(folder, node) for node in nodes))
    # No ConstrainDevices: the GPUs are not there. Slurm's own folder, so that clusters side by side stay apart.
    limits = "ConstrainRAMSpace=yes\n" if settings.get("TaskPlugin") == "task/cgroup" else ""
    (folder / "etc/cgroup.conf").write_text(f"CgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n{limits}")
    conf = folder / "etc/slurm.conf"
    conf.write_text("".join(lines))
    return conf


def _devices(folder: Path, node: Node) -> str:
    """Slurm wants device files and sets CUDA_VISIBLE_DEVICES for those alone; a link to one needs no root."""
    place = folder / "devices" / node.name
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
