"""The other machines that the user's settings name: whether ssh reaches them, and gputui there."""

from __future__ import annotations

from gputui.gpus.doctor import Finding
from gputui.session.config import load

PATIENCE = 5.0


def host_findings() -> list[Finding]:
    """Nothing where none are named."""
    config = load()
    if not config.get("hosts")[0]:
        return []
    from gputui.hosts.places import BadHost, listed
    from gputui.hosts.survey import ask_all

    try:
        answers = ask_all(listed(None, config), str(config.get("ssh")[0]), PATIENCE)
    except BadHost as error:
        return [Finding(False, str(error), "gputui config shows where it is written")]
    return [
        Finding(True, f"{answer.place.alias} answers over ssh")
        if answer.look is not None
        else Finding(False, f"{answer.place.alias}: {answer.trouble}", f"ssh {answer.place.alias} gputui --version")
        for answer in answers
    ]
