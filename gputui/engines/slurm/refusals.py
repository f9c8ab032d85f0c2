"""Why Slurm does not take a job or an order, in a sentence that says what to do. Unknown words stay as they are."""

from __future__ import annotations

import re

_ASSOCIATIONS = "`sacctmgr show assoc user=$USER` lists yours"
_FEWER = "Slurm takes no more jobs of yours at once here: use fewer lanes (gputui gpus slurm:N)"
_MEMORY = "no node has so much memory: ask for less"
_GPUS = "the cluster has no such GPU resource: `sinfo -o '%P %G'` shows what it has"
_CLOSED = "the partition is closed: choose another with --partition"

_SENTENCES = (
    ("invalid partition", "the cluster has no partition{named}: `sinfo -s` lists them; choose with --partition"),
    ("no partition specified", "the cluster has no default partition: choose with --partition (`sinfo -s` lists them)"),
    ("account/partition combination", f"the account may not be used there: {_ASSOCIATIONS}; choose with --account"),
    ("invalid account", f"the account may not be used: {_ASSOCIATIONS}; choose with --account"),
    ("user's group not permitted", "your group may not use this partition: choose another with --partition"),
    ("invalid qos", f"the QOS may not be used: {_ASSOCIATIONS}; choose with --qos"),
    ("access/permission denied", "Slurm does not let you do that"),
    ("jobs in this qos or account", _FEWER),
    ("maximum number of jobs", _FEWER),
    ("submitjob", _FEWER),
    (
        "violates accounting/qos policy",
        "the job breaks a limit of your account or QOS (jobs at once, size, or time): use fewer lanes, or ask for less",
    ),
    ("time limit", "the partition does not allow so much time: ask for less with --time"),
    ("more processors requested than permitted", "no node has so many CPUs: ask for less"),
    ("memory specification can not be satisfied", _MEMORY),
    ("memory required by task is not available", _MEMORY),
    (
        "node configuration is not available",
        "no node that is open now has what the job asks for: ask for less, or see `sinfo -R` for closed nodes",
    ),
    ("generic resource", _GPUS),
    ("gres", _GPUS),
    ("invalid feature", "no node has that feature: `sinfo -o '%N %f'` shows them; choose with --constraint"),
    ("invalid node name", "the cluster has no such node: `sinfo -N` lists them"),
    ("invalid license", "the cluster has no such licence: `scontrol show lic` lists them"),
    ("required partition not available", _CLOSED),
    ("partition is down", _CLOSED),
    ("unrecognized option", "sbatch knows no option {option}: see `sbatch --help`"),
    (
        "establish a configuration source",
        "Slurm is installed here, but this machine is in no cluster: there is no slurm.conf (SLURM_CONF names one)",
    ),
    ("unable to resolve", "Slurm cannot find its controller: is SLURM_CONF as it should be?"),
    ("invalid job id", "Slurm does not know the job any more"),
)


def refusal(program: str, said: str) -> str:
    """What its user is told."""
    low = said.lower()
    for words, sentence in _SENTENCES:
        if words in low:
            return _filled(sentence, said)
    return f"{program}: {_last(said)}"


def _filled(sentence: str, said: str) -> str:
    partition = re.search(r"invalid partition specified: (\S+)", said)
    option = re.search(r"unrecognized option '?([^'\s]+)", said)
    named = f" {partition[1]}" if partition else ""
    return sentence.format(named=named, option=option[1] if option else "like that")


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else "it failed and said nothing"
    return re.sub(r"^(?:\w+: )?(?:error: )?(?:Batch job submission failed: )?", "", words)
