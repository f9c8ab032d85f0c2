"""`gputui doctor`: what this machine gives, each finding with what to do about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from gputui.cli.output import out
from gputui.cli.parser import Options, Parser
from gputui.core.events import Settings
from gputui.core.job import EngineName
from gputui.gpus.hardware import driver_present
from gputui.logs.plain import plain

from .machine import Finding, gpu_findings, lease_finding

Section = tuple[str, Callable[[], list[Finding]]]


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Looks at this machine: Python, GPUs and driver, the session's folder, limits, what survives a logout, the "
        "terminal, other machines, Slurm. Every finding says what to do; nothing is changed. Exit status 1: something "
        "keeps jobs from running, or from running safely.",
        usage="doctor [--slurm] [--partition P] [--account A] [--qos Q] [--json]",
        examples="gputui doctor\ngputui doctor --json\ngputui doctor --slurm --partition gpu",
    )
    verb_parser.switch(
        "--slurm", help="work is to be done on a cluster: also submit a trial job that looks at the folder"
    )
    verb_parser.add_argument("--partition", help="as jobs will be submitted with")
    verb_parser.add_argument("--account", help="as jobs will be submitted with")
    verb_parser.add_argument("--qos", help="as jobs will be submitted with")
    verb_parser.add_argument("--constraint", help="as jobs will be submitted with")
    verb_parser.add_common("json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    from gputui.cli.command import carry_out

    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    findings = [(name, finding) for name, look in sections(options) for finding in look()]
    if options.json:
        from gputui.cli.command import print_json

        rows = [
            {"area": name, "level": each.level, "text": plain(each.text), "advice": each.advice or None}
            for name, each in findings
        ]
        print_json({"good": not any(each.serious for _, each in findings), "findings": rows})
    else:
        for _, finding in findings:
            out(f"{finding.level:4}  {plain(finding.text)}")
            if finding.advice:
                out(f"      → {finding.advice}")
    return 1 if any(finding.serious for _, finding in findings) else 0


def sections(options: Options) -> list[Section]:
    from .machine import limit_findings, logout_findings, python_findings, terminal_findings
    from .session_dir import folder_findings, host_findings

    root, begun = session_folder(options)
    return [
        ("python", python_findings),
        ("gpus", lambda: [*_gpus(), lease_finding()]),
        ("folder", lambda: folder_findings(root, begun=begun)),
        ("limits", limit_findings),
        ("logout", logout_findings),
        ("shell", lambda: [_shell()]),
        ("terminal", terminal_findings),
        ("hosts", host_findings),
        ("slurm", lambda: _slurm(options, root if begun else os.path.dirname(root))),
    ]


def session_folder(options: Options) -> tuple[str, bool]:
    """The session that is meant, or where one would be begun; and whether it is there."""
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
        return [Finding(True, "no NVIDIA GPU: CPU lanes serve instead", "gputui run --gpus cpu:N chooses how many")]
    sampler = ProcessSampler()
    try:
        return gpu_findings(sample_once(sampler), os.environ)
    finally:
        sampler.close()


def _shell() -> Finding:
    if shutil.which("bash"):
        return Finding(True, "commands run under bash")
    return Finding(False, "there is no bash: commands run under sh", "install bash, or write commands for sh")


def _slurm(options: Options, folder: str) -> list[Finding]:
    """Only where there is Slurm, or where it is asked for; a job is submitted only where it is asked for."""
    from .slurm import SlurmWishes, slurm_findings

    settings = cluster_settings(folder)
    session_settings = settings or Settings()
    on_cluster = options.slurm or settings is not None or bool(options.partition or options.account or options.qos)
    if not on_cluster and shutil.which("sbatch") is None:
        return []
    wishes = SlurmWishes(
        on_cluster,
        options.partition or session_settings.partition,
        options.account or session_settings.account,
        options.qos or session_settings.qos,
        options.constraint or session_settings.constraint,
        session_settings.sbatch_opt,
    )
    return slurm_findings(wishes, folder, probe=on_cluster)


def cluster_settings(root: str) -> Settings | None:
    """What the session in this folder wants of a cluster; None: its jobs run here, or nobody owns it."""
    from gputui.session.control.connection import ClientError, Connection, NoOwner
    from gputui.session.messages import StatusQuestion

    try:
        connection = Connection(os.path.join(root, ".gputui"))
    except (ClientError, NoOwner, OSError):
        return None
    try:
        status = connection.ask(StatusQuestion())
    except (ClientError, NoOwner, OSError):
        return None
    finally:
        connection.close()
    return status.settings if status.engine is EngineName.SLURM else None
