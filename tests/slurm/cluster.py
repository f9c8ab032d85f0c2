#!/usr/bin/env python3
"""A throw-away Slurm cluster on loopback: 3 nodes of 4 GPUs that are not there.

cluster.py install        Debian's packages, as root
cluster.py run COMMAND…   brings a cluster up, runs the command with SLURM_CONF set, takes the cluster down
cluster.py up             the same until Ctrl-C; prints what to export in another shell
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent.parent)]

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
_NO_SERVICES = Path("/usr/sbin/policy-rc.d")


def install() -> int:
    """What is there already is left alone; no service is started by it."""
    if all(shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("slurmctld", "slurmd", "sbatch", "munged")):
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("Slurm's tests need slurmctld, slurmd, slurm-client and munge; only root on Debian can install them here")
        return 1
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ours = not _NO_SERVICES.exists()
    if ours:
        _NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        _NO_SERVICES.chmod(0o755)
    try:
        subprocess.run([*apt, "update", "-qq"], env=environment, check=False)
        words = [*apt, "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
        return subprocess.run(words, env=environment, check=False).returncode
    finally:
        if ours:
            _NO_SERVICES.unlink()


def run(words: list[str]) -> int:
    from support.slurm import SlurmUnavailable, cluster

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with cluster() as made:
            if words:
                return subprocess.run(words, env=made.environment, check=False).returncode
            print(f"export SLURM_CONF={made.conf} PATH={made.environment['PATH']}", flush=True)
            signal.pause()
    except SlurmUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["install"]:
            return install()
        case ["up"]:
            return run([])
        case ["run", *words] if words:
            return run(words)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
