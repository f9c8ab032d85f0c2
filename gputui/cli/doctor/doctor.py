"""`gputui doctor`: check this machine and give advice for each finding."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing

from msgspec import Struct

from gputui.cli.output import print_answer
from gputui.cli.parser import Options, Parser
from gputui.core.events import Settings
from gputui.core.job import EngineName
from gputui.gpus.hardware import driver_present
from gputui.logs.plain import plain
from gputui.session.control.connection import ask_owner
from gputui.session.messages import StatusQuestion
from gputui.session.registry import PRIVATE

from .machine import (
    Finding,
    directory_findings,
    gpu_findings,
    host_findings,
    lease_finding,
    limit_findings,
    logout_findings,
    python_findings,
    terminal_findings,
)  # fmt: skip

Section = tuple[str, Callable[[], list[Finding]]]


class FindingShown(Struct, frozen=True):
    area: str
    level: str
    text: str
    advice: str | None


class DoctorAnswer(Struct, frozen=True):
    good: bool
    findings: list[FindingShown]


ANSWERS = {"doctor": DoctorAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Check this machine: Python, GPUs and driver, session directory, limits, logout, terminal, other "
        "hosts, Slurm. Each finding says what to do; nothing is changed. Exit status 1: something prevents "
        "jobs from running, or from running safely.",
        usage="doctor [--slurm] [--partition P] [--account A] [--qos Q] [--json]",
        examples="gputui doctor\ngputui doctor --json\ngputui doctor --slurm --partition gpu",
    )
    parser.switch("--slurm", help="check for use with Slurm; also submits a test job")
    parser.add_argument("--partition", help="as used for your jobs")
    parser.add_argument("--account", help="as used for your jobs")
    parser.add_argument("--qos", help="as used for your jobs")
    parser.add_argument("--constraint", help="as used for your jobs")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    findings = [(name, finding) for name, check in sections(options) for finding in check()]
    serious = any(finding.serious for _, finding in findings)
    rows = [
        FindingShown(name, finding.level, plain(finding.text), finding.advice or None) for name, finding in findings
    ]
    lines = [
        line
        for row in rows
        for line in (f"{row.level:4}  {row.text}", *([f"      → {row.advice}"] if row.advice else []))
    ]
    print_answer(lambda: DoctorAnswer(not serious, rows), lambda _: lines)
    return int(serious)


def sections(options: Options) -> list[Section]:
    root, exists = session_directory(options)
    shell = Finding(True, "commands run under bash")
    if shutil.which("bash") is None:
        shell = Finding(False, "bash not found: commands run under sh", "install bash, or write commands for sh")
    return [
        ("python", python_findings),
        ("gpus", lambda: [*_gpus(), lease_finding()]),
        ("directory", lambda: directory_findings(root, exists=exists)),
        ("limits", limit_findings),
        ("logout", logout_findings),
        ("shell", lambda: [shell]),
        ("terminal", terminal_findings),
        ("hosts", host_findings),
        ("slurm", lambda: _slurm(options, root if exists else os.path.dirname(root))),
    ]


def session_directory(options: Options) -> tuple[str, bool]:
    """Return the selected session directory, or the one that would be created, and whether it exists."""
    from gputui.session.client import NeedsSession, chosen
    from gputui.session.control.connection import NoSession

    try:
        return chosen("doctor", options.session), True
    except (NoSession, NeedsSession):
        if options.session:
            raise
        return os.path.abspath("gputui_run"), False


def _gpus() -> list[Finding]:
    from gputui.gpus.sampler_process import ProcessSampler, sample_once

    if not driver_present():
        return [Finding(True, "no NVIDIA GPU: using CPU slots", "set how many: gputui run --gpus cpu:N")]
    with closing(ProcessSampler()) as sampler:
        return gpu_findings(sample_once(sampler), os.environ)


def _slurm(options: Options, directory: str) -> list[Finding]:
    """Check Slurm if it is installed or used. A test job is submitted only if Slurm is used."""
    from .slurm import SubmitOptions, slurm_findings

    settings = cluster_settings(directory)
    session_settings = settings or Settings()
    on_cluster = options.slurm or settings is not None or bool(options.partition or options.account or options.qos)
    if not on_cluster and shutil.which("sbatch") is None:
        return []
    submit_options = SubmitOptions(
        on_cluster,
        options.partition or session_settings.partition,
        options.account or session_settings.account,
        options.qos or session_settings.qos,
        options.constraint or session_settings.constraint,
        session_settings.sbatch_opt,
    )
    return slurm_findings(submit_options, directory, probe=on_cluster)


def cluster_settings(root: str) -> Settings | None:
    """Return the cluster options of the session in this directory. Return None if it is local or has no owner."""
    status = ask_owner(os.path.join(root, PRIVATE), StatusQuestion())
    return status.settings if status is not None and status.engine is EngineName.SLURM else None
