"""`gputui doctor`: what this machine gives, each finding with what to do about it."""

from __future__ import annotations

import os
import shutil
import sys

from gputui.cli.output.words import out
from gputui.cli.parsing.parser import Parser
from gputui.gpus.doctor import Finding, gpu_findings, lease_finding
from gputui.gpus.hardware import driver_present
from gputui.gpus.process import ProcessSampler
from gputui.gpus.watch import sample_once

LOGIND = ("/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf")


def parser(verb: str) -> Parser:
    return Parser(
        verb,
        "Looks at this machine: GPUs, driver, what survives a logout. Every finding says what to do.",
        usage="doctor",
        examples="gputui doctor",
    )


def main(verb: str, words: list[str]) -> int:
    from gputui.cli.calling import carry_out

    return carry_out(parser(verb), words, lambda options: report())


def report() -> int:
    findings = [_python(), *_gpus(), lease_finding(), _logout(), _shell()]
    for finding in findings:
        out(f"{'ok  ' if finding.good else 'note'}  {finding.text}")
        if finding.advice:
            out(f"      → {finding.advice}")
    return 0


def _python() -> Finding:
    return Finding(True, f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores")


def _gpus() -> list[Finding]:
    if not driver_present():
        return [Finding(True, "no NVIDIA GPU: CPU lanes serve instead", "gputui run --gpus cpu:N chooses how many")]
    sampler = ProcessSampler()
    try:
        return gpu_findings(sample_once(sampler), os.environ)
    finally:
        sampler.close()


def _logout() -> Finding:
    """systemd can end everything of a user at logout, keepers and jobs included."""
    if not os.path.isdir("/run/systemd/system"):
        return Finding(True, "no systemd: nothing ends your processes at logout")
    if not _kills_at_logout():
        return Finding(True, "systemd leaves your processes alone at logout")
    user = os.environ.get("USER", str(os.getuid()))
    if os.path.exists(f"/var/lib/systemd/linger/{user}"):
        return Finding(True, "systemd kills your processes at logout, but lingering is on for you")
    advice = f"loginctl enable-linger {user}; then start with: systemd-run --user --scope gputui run …"
    return Finding(False, "KillUserProcesses=yes: jobs and keepers end when you log out", advice)


def _kills_at_logout() -> bool:
    for path in LOGIND:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line.strip().replace(" ", "").lower() for line in file]
        except OSError:
            continue
        if "killuserprocesses=yes" in lines or "killuserprocesses=true" in lines:
            return True
    return False


def _shell() -> Finding:
    if shutil.which("bash"):
        return Finding(True, "commands run under bash")
    return Finding(False, "there is no bash: commands run under sh", "install bash, or write commands for sh")
