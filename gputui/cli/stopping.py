"""`gputui stop`: everything of a session ends, its queue stays, and what is claimed about it is looked up in /proc."""

from __future__ import annotations

import time

from gputui.session.client import ClientError
from gputui.session.remains import is_mine_and_alive, left_of

from .calling import INTERRUPTED, carry_out, session
from .scheduling import Progress, command
from .syntax import SESSION, Options, Verb
from .words import counted, out, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gputui.session.client import Client

NAP = 0.1
KEEPERS_GO_WITHIN = 5.0

VERBS = {
    "stop": Verb(
        "stop",
        "stop",
        "Ends all running jobs with grace and puts them back into the queue, ends the keeper, and verifies that "
        "nothing is left.",
        "gputui stop\ngputui resume",
        (SESSION,),
        words=(0, 0),
    )
}


def main(verb: str, words: list[str]) -> int:
    return carry_out(VERBS[verb], words, work)


def work(options: Options) -> int:
    client = session(options)
    command(client, {"type": "pause", "kind": "stopped"})
    try:
        status = until_nothing_runs(client)
    except KeyboardInterrupt:
        say("the jobs are still being stopped; gputui stop watches on")
        return INTERRUPTED
    if status["owner"] is not None and status["owner"]["kind"] == "keeper":
        dismiss(client)
    return verified(client, status)


def until_nothing_runs(client: Client) -> dict[str, Any]:
    """Tells each running job to stop, once, and counts down what is left of their grace."""
    progress = Progress()
    told: set[tuple[int, int]] = set()
    begun = time.monotonic()
    try:
        while True:
            status: dict[str, Any] = client.ask("status")
            if not status["active"]:
                return status
            jobs = client.ask("listing", jobs=status["active"])["jobs"]
            requeue(client, [job for job in jobs if (job["id"], job["attempt"]) not in told])
            told |= {(job["id"], job["attempt"]) for job in jobs}
            progress.show(countdown(jobs, time.monotonic() - begun))
            time.sleep(NAP)
    finally:
        progress.clear()


def requeue(client: Client, jobs: list[dict[str, Any]]) -> None:
    """A refusal says that the job ended or is being stopped already, which is as good."""
    events = [{"type": "requeue", "job": job["id"]} for job in jobs if job["state"] != "stopping"]
    if events:
        client.ask("commands", work=True, events=events)


def countdown(jobs: list[dict[str, Any]], waited: float) -> str:
    names = ", ".join(f"#{job['id']}" for job in jobs[:5]) + (" …" if len(jobs) > 5 else "")
    deadlines = [job["kill_at"] for job in jobs if job.get("kill_at") is not None]
    left = f"killed in {max(0, int(max(deadlines) - time.time()))} s" if deadlines else f"for {int(waited)} s"
    return f"stopping {len(jobs)} running: {names} · {left}"


def dismiss(client: Client) -> None:
    try:
        client.ask("leave")
    except ClientError as error:
        say(str(error))


def verified(client: Client, status: dict[str, Any]) -> int:
    """Looks until nothing is left, for a keeper needs a moment to go."""
    deadline = time.monotonic() + KEEPERS_GO_WITHIN
    while (left := [*left_of(client.root), *still_owning(status["owner"])]) and time.monotonic() < deadline:
        time.sleep(NAP)
    if not left:
        wait = counted(status["waiting"], "job waits", "jobs wait")
        out(f"nothing of gputui runs here any more; {wait}. To go on: gputui resume")
        return 0
    for pid, what in left:
        say(f"still there: pid {pid}, {what}")
    return 1


def still_owning(owner: dict[str, Any] | None) -> list[tuple[int, str]]:
    """An app stays open, and a run that has other things to do stays too."""
    if owner is None or owner["kind"] == "keeper" or not is_mine_and_alive(owner["pid"]):
        return []
    return [(owner["pid"], f"gputui {owner['kind']}, which owns the session")]
