"""The supervisor: the batch script that claims an attempt on a node, runs the command and records how it ended.

The supervisor is a bash script because bash can handle signals while it waits for a command. It outlives the command
because Slurm kills all processes when the batch script ends. On clusters that track processes with control groups,
Slurm's signals reach only the supervisor. On clusters that use process groups, they reach all processes. The supervisor
forwards signals to the whole tree of the attempt: processes that have its token, write to its logs, or descend from its
command.
"""

from __future__ import annotations

import os
import shlex

import msgspec

from gputui.core.events import NoRoom, NotStarted
from gputui.engines.claims import DIRECTORY_GONE_LINE, EXIT_WORD, LOG_FAILED_LINE, SIGNALLED_LINE, SLURM_WORD
from gputui.engines.local import spawn
from gputui.engines.protocol import Launch
from gputui.process.processes import TOKEN_VARIABLE

from .client import SlurmCommands, SlurmRefused
from .messages import LATER, minutes, sbatch_options
from .parse import SlurmJob

CLAIM_TAKEN, DIRECTORY_UNSEEN, CLAIM_FAILED = 125, 124, 123
"""Exit codes of a supervisor that could not create its claim."""
BEGUN, ENDED = "begun", "ended"
"""Suffixes of the notes in the directory `news`."""
KILL_SIGNAL = 40
"""Number of the signal that asks the supervisor to kill the tree (RTMIN+6 in bash). Nothing else uses it."""
KILLED = 128 + 9
"""Exit code of an attempt that was killed together with its supervisor."""
GPU_USE = "gpu_use.csv"
"""File with GPU use: index, utilization in %, used and total memory in MiB, temperature in °C, power in W."""
_GIVEN = "GPUTUI_SLURM_"

# A trapped signal ends `wait`, and bash loses the status of a child that ends at the same moment, as happens when Slurm
# signals all processes of a job (bash 5.2.15 then always returns -1). So a second shell, the witness, waits in the
# foreground, where no trap interrupts it, and passes the exit code on through a pipe. Traps only set variables.
# Leftover processes are searched for only after an order to end, or if Slurm has no control group that it kills.
# Usually there are none, so /proc/PID/stat, which is slow to read in bash, is read only if a process has a log open.
_SIGNALS = "HUP INT QUIT PIPE ALRM TERM USR1 USR2 XCPU XFSZ RTMIN+6"
TEXT = f"""\
#!/bin/bash
gputui_directory=${_GIVEN}DIRECTORY gputui_key=${_GIVEN}KEY gputui_token=${_GIVEN}TOKEN gputui_cwd=${_GIVEN}CWD
gputui_out=${_GIVEN}OUT gputui_err=${_GIVEN}ERR gputui_words=${_GIVEN}WORDS
gputui_rang= gputui_asked= gputui_heard= gputui_ordered=
unset ${{!{_GIVEN}@}}
gputui_claim=$gputui_directory/claims/$gputui_key gputui_news=$gputui_directory/news/$gputui_key
cd /
set -C

gputui_tree() {{
    local gputui_line gputui_pid gputui_grew=1
    local -A gputui_parent=() gputui_member=()
    gputui_found=()
    for gputui_line in /proc/[0-9]*; do
        if [[ $gputui_line/fd/1 -ef $gputui_out || $gputui_line/fd/2 -ef $gputui_err ]]; then
            gputui_member[${{gputui_line#/proc/}}]=1
        fi
    done
    [ -z "$gputui_ordered" ] || for gputui_line in $(
        grep -lzxF "{TOKEN_VARIABLE}=$gputui_token" /proc/[0-9]*/environ 2>/dev/null
    ); do
        gputui_pid=${{gputui_line#/proc/}}
        gputui_member[${{gputui_pid%/environ}}]=1
    done
    [ ! -e "/proc/$gputui_witness" ] || gputui_member[$gputui_witness]=1
    [ ${{#gputui_member[@]}} != 0 ] || return 0
    for gputui_line in /proc/[0-9]*/stat; do
        gputui_pid=${{gputui_line#/proc/}} gputui_pid=${{gputui_pid%/stat}}
        {{ read -r gputui_line <"$gputui_line"; }} 2>/dev/null || continue
        gputui_line=${{gputui_line##*) }}
        case $gputui_line in [ZX]*) continue ;; esac
        gputui_line=${{gputui_line#* }}
        gputui_parent[$gputui_pid]=${{gputui_line%% *}}
    done
    while [ -n "$gputui_grew" ]; do
        gputui_grew=
        for gputui_pid in "${{!gputui_parent[@]}}"; do
            [ -z "${{gputui_member[$gputui_pid]}}" ] || continue
            [ -n "${{gputui_member[${{gputui_parent[$gputui_pid]}}]}}" ] || continue
            gputui_member[$gputui_pid]=1 gputui_grew=1
        done
    done
    unset "gputui_member[$$]" "gputui_member[$gputui_witness]"
    # The command itself is signalled first, so that it does not react to the end of its children.
    for gputui_pid in "${{!gputui_member[@]}}"; do
        [ "${{gputui_parent[$gputui_pid]}}" != "$gputui_witness" ] || gputui_found+=("$gputui_pid")
    done
    for gputui_pid in "${{!gputui_member[@]}}"; do
        case ${{gputui_parent[$gputui_pid]}} in '' | "$gputui_witness") ;; *) gputui_found+=("$gputui_pid") ;; esac
    done
}}
gputui_signal() {{
    gputui_tree
    [ ${{#gputui_found[@]}} = 0 ] || kill -s "$1" "${{gputui_found[@]}}" 2>/dev/null
}}
gputui_continue() {{
    kill -s CONT "$gputui_witness" "${{gputui_found[@]}}" 2>/dev/null
}}
gputui_terminate() {{
    gputui_ordered=1
    gputui_signal TERM
    gputui_continue
}}
gputui_kill() {{
    gputui_ordered=1
    local gputui_round
    for gputui_round in {{1..60}}; do
        gputui_signal KILL
        gputui_continue
        [ ${{#gputui_found[@]}} != 0 ] || break
        sleep 0.05
    done
}}
gputui_sample() {{
    local gputui_gpus=${{SLURM_JOB_GPUS:-$CUDA_VISIBLE_DEVICES}}
    while nvidia-smi -i "$gputui_gpus" --format=csv,noheader,nounits \\
        --query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw \\
        >|"$GPUTUI_JOB_DIR/.{GPU_USE}" 2>/dev/null; do
        mv -f "$GPUTUI_JOB_DIR/.{GPU_USE}" "$GPUTUI_JOB_DIR/{GPU_USE}"
        sleep 2
    done
}}
gputui_obey() {{
    local gputui_name gputui_asked_now=$gputui_asked
    gputui_asked= gputui_heard+=$gputui_asked_now
    for gputui_name in $gputui_asked_now; do
        case $gputui_name in
            TERM) gputui_terminate ;;
            RTMIN+6) gputui_kill ;;
            *) gputui_signal "$gputui_name" ;;
        esac
    done
}}
trap 'gputui_rang=1' QUIT PIPE ALRM XCPU XFSZ
for gputui_name in HUP INT USR1 USR2 TERM RTMIN+6; do
    trap "gputui_rang=1; gputui_asked+=' $gputui_name'" $gputui_name
done

printf -v gputui_now '%(%s)T' -1
gputui_now=${{EPOCHREALTIME:-$gputui_now}} gputui_gpus=${{SLURM_JOB_GPUS:-$CUDA_VISIBLE_DEVICES}}
[ -d "$gputui_directory/claims" ] || exit {DIRECTORY_UNSEEN}
if ! {{ printf '{SLURM_WORD} %s %s %s %s %s\\n' "$SLURM_JOB_ID" "$SLURMD_NODENAME" "$$" "${{gputui_now/,/.}}" \\
    "${{gputui_gpus:--}}" >"$gputui_claim"; }} 2>/dev/null; then
    [ -e "$gputui_claim" ] && exit {CLAIM_TAKEN}
    exit {CLAIM_FAILED}
fi
{{ : >|"$gputui_news.{BEGUN}"; }} 2>/dev/null
gputui_over() {{
    {{ echo "$1" >>"$gputui_claim"; : >|"$gputui_news.{ENDED}"; }} 2>/dev/null
    exit "$2"
}}
cd -- "$gputui_cwd" 2>/dev/null || gputui_over {DIRECTORY_GONE_LINE.decode()} 126
if ! {{ : >"$gputui_out"; }} 2>/dev/null || ! {{ [ "$gputui_out" = "$gputui_err" ] || : >"$gputui_err"; }} 2>/dev/null
then
    gputui_over {LOG_FAILED_LINE.decode()} 126
fi
eval "set -- $gputui_words"
exec {{gputui_ends}}<> <(:)
(
    trap : {_SIGNALS}
    (
        trap - {_SIGNALS}
        set +C
        export {TOKEN_VARIABLE}=$gputui_token
        exec {{gputui_ends}}<&-
        exec "$@"
    ) >>"$gputui_out" 2>>"$gputui_err"
    echo "$?" >&"$gputui_ends"
) </dev/null >/dev/null 2>&1 &
gputui_witness=$!
if [ -n "$gputui_gpus" ] && [ -n "$GPUTUI_JOB_DIR" ] && command -v nvidia-smi >/dev/null; then
    gputui_sample </dev/null >/dev/null 2>&1 &
    gputui_sampler=$!
fi
while :; do
    gputui_rang=
    wait "$gputui_witness"
    gputui_code=$?
    [ -n "$gputui_rang" ] || break
    gputui_obey
done
if read -r -t 1 -u "$gputui_ends" gputui_given; then gputui_code=$gputui_given; fi
[ "$gputui_code" != -1 ] || gputui_code={KILLED}
[ -z "$gputui_sampler" ] || kill -s KILL "$gputui_sampler" 2>/dev/null
gputui_found=()
{{ read -r -d '' gputui_groups </proc/self/cgroup; }} 2>/dev/null
case $gputui_ordered$gputui_groups in [!1]*/slurm*) ;; *) gputui_tree ;; esac
while [ ${{#gputui_found[@]}} != 0 ]; do
    [ -n "$gputui_ordered" ] || gputui_kill
    sleep 0.1
    gputui_obey
    gputui_tree
done
case $gputui_heard$gputui_asked in *TERM*) {{ echo {SIGNALLED_LINE.decode()} >>"$gputui_claim"; }} 2>/dev/null ;; esac
gputui_over "{EXIT_WORD.decode()} $gputui_code" "$gputui_code"
"""


def variables(launch: Launch, token: str, directory: str) -> dict[str, str]:
    """Return the supervisor's environment: the job's variables and the inputs of the script.

    Variables that affect bash are left out. Slurm's own variables are left out too, because they would come from a
    Slurm job in which gputui itself is running.
    """
    hidden_names = spawn.kept_from_the_wrapper(launch.environment)
    words = [*spawn.handed_over(hidden_names, launch.environment), *spawn.shell_call(launch)]
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if launch.gpus == 0 else {}
    inputs = {
        "DIRECTORY": directory,
        "KEY": f"{launch.job}.{launch.attempt}",
        "TOKEN": token,
        "CWD": launch.cwd,
        "OUT": launch.out,
        "ERR": launch.err or launch.out,
        "WORDS": shlex.join(words),
    }
    environment = {
        name: value for name, value in launch.environment.items() if name not in hidden_names and not _of_slurm(name)
    }
    return {**environment, **hidden, **{_GIVEN + name: value for name, value in inputs.items()}}


def _of_slurm(name: str) -> bool:
    own = name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", TOKEN_VARIABLE)
    return own or name.startswith(("SLURM_", "SBATCH_", "SLURMD_", _GIVEN))


# Submitting the supervisor


PATIENCE = 30.0
"""Timeout in seconds for one submission."""
_COMMENT, _NAME = "gputui:", "gputui-"
_OWN_GPUS = ("--gres", "--gpus", "-G")


def job_name(token: str) -> str:
    return _NAME + token


def token_of(job: SlurmJob) -> str | None:
    """Return a job's token from its comment, which clusters may overwrite, or its name, which users may change."""
    if job.comment.startswith(_COMMENT):
        return job.comment.removeprefix(_COMMENT)
    return job.name.removeprefix(_NAME) if job.name.startswith(_NAME) else None


def submit(launch: Launch, token: str, directory: str, *, has_gpus: bool = True) -> int:
    """Submit an attempt and return the id of the new job.

    Raises SlurmRefused or SlurmSilent. After SlurmSilent, the job may exist nevertheless. The environment is passed in
    memory, so that it appears neither on disk nor in the process list.
    """
    environment = variables(launch, token, directory).items()
    with open(os.memfd_create("gputui-environment", os.MFD_CLOEXEC), "wb") as memory:
        memory.write(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment))
        memory.seek(0)
        words = [f"--export-file={memory.fileno()}", *_options(launch, token, has_gpus=has_gpus)]
        return int(SlurmCommands(patience=PATIENCE).submit(*words, script=TEXT, passed=memory.fileno()))


def _options(launch: Launch, token: str, *, has_gpus: bool) -> list[str]:
    """Return the options for sbatch. The user's options come first so that gputui's options override them."""
    gpus = int(has_gpus) if launch.gpus is None else launch.gpus
    if launch.gpus is None and any(option.startswith(_OWN_GPUS) for option in launch.cluster_options.sbatch_opt):
        gpus = 0
    options = {
        "time": minutes(launch.timeout) if launch.timeout is not None else "",
        "gres": f"gpu:{gpus}" if gpus else "",
        "nodes": "1",
        "job-name": job_name(token),
        "comment": _COMMENT + token,
        "chdir": "/",
        "output": "/dev/null",
        "error": "/dev/null",
    }
    given = sbatch_options(msgspec.structs.asdict(launch.cluster_options))
    return [*given, *(f"--{name}={value}" for name, value in options.items() if value), "--no-requeue"]


def refusal_outcome(refused: SlurmRefused) -> NoRoom | NotStarted:
    said = refused.words.lower()
    return NoRoom(str(refused)) if any(words in said for words in LATER) else NotStarted(str(refused))
