"""A cluster's accounting on this machine: slurmdbd with a database of its own, accounts, QOS and their limits.

For tests that take their time; needs slurmdbd and MariaDB beside Slurm.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from socket import gethostname, socket
from typing import TYPE_CHECKING

from .waiting import until

if TYPE_CHECKING:
    from .slurm_cluster import Cluster

PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")
_DATABASE = """
create database slurm;
create user 'slurm'@'127.0.0.1' identified by 'slurm';
grant all on slurm.* to 'slurm'@'127.0.0.1';
"""
_DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={folder}/log/slurmdbd
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""


def missing(path: str) -> str | None:
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    return f"there is no {absent[0]} (as root: apt-get install slurmdbd mariadb-server)" if absent else None


class Accounts:
    """`lines` are sacctmgr's: what the cluster's accounting knows."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self._port, self._database = _free_port(), _free_port()

    def settings(self, folder: Path) -> dict[str, str]:
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self._port),
            "AccountingStoragePass": f"{folder}/munge.sock",
            "AccountingStorageEnforce": "associations,limits,qos",
        }

    def begin(self, cluster: Cluster, user: str) -> None:
        """Before the controller, which wants to find it."""
        self._begin_database(cluster.folder / "db", cluster, user)
        host = gethostname().partition(".")[0]
        conf = cluster.folder / "etc/slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(
            _DAEMON.format(folder=cluster.folder, host=host, port=self._port, user=user, database=self._database)
        )
        cluster.start_daemon("slurmdbd", "-D")
        until(lambda: cluster.answers("sacctmgr", "-i", "add", "cluster", "gputui"), "slurmdbd answers")
        for line in self._lines:
            cluster.ask("sacctmgr", "-i", *line.split())

    def _begin_database(self, folder: Path, cluster: Cluster, user: str) -> None:
        own = ("--no-defaults", f"--datadir={folder}", f"--user={user}")
        words = ("mariadb-install-db", *own, "--auth-root-authentication-method=normal", "--skip-test-db")
        subprocess.run(words, env=cluster.environment, capture_output=True, check=True)
        where = (f"--socket={folder}/socket", f"--port={self._database}", "--bind-address=127.0.0.1")
        cluster.start_daemon("mariadbd", *own, *where)
        until(
            lambda: cluster.answers("mariadb", "--no-defaults", "-uroot", where[0], "-e", _DATABASE),
            "the database answers",
        )


def _free_port() -> int:
    with closing(socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
