"""`gputui gpus`: the lanes of a live session, and changing them."""

from __future__ import annotations

from msgspec.structs import replace

from gputui.cli.command import again, carry_out, confirm, print_json, seen, session
from gputui.cli.output import Exit, out, refuse, say
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Column, Paper, table
from gputui.core.events import Mode, Requeue, SetLanes
from gputui.core.job import ACTIVE, StateName
from gputui.core.lanes import DeviceKind, Lane
from gputui.session.client import Client
from gputui.session.control.connection import NoSession
from gputui.session.messages import Commands, Lanes, LaneShown, LanesShown, PickedJob, PickJobs, StatusQuestion

from .pause_resume_drain import command

COLUMNS = (Column("lane", right=True), Column("gpu"), Column("state"), Column("job", right=True))


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows the lanes, or changes them: a list replaces them all, + adds, - takes away. A lane that is taken away "
        "while its job runs goes when the job has ended; with --now the job is requeued.",
        usage="gpus [LIST | +LIST | -LIST [--now]] [--json]",
        examples="gputui gpus\ngputui gpus 0-3\ngputui gpus +6,7\ngputui gpus -6,7 --now\ngputui gpus cpu:4",
        signed=True,
    )
    verb_parser.add_argument("words", nargs="*", metavar="LIST", help="0,1 · 0-3 · 0,0,1 · [0,1],[2,3] · cpu:4 · all")
    verb_parser.switch("--now", help="requeue the jobs on lanes that are taken away")
    verb_parser.add_common("yes", "json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.words:
        client = session(options)
        return change(client, options, client.ask(Lanes()).lanes)
    if options.now:
        refuse(f"--now goes with lanes that are taken away: {again(options, 'gputui gpus -6,7 --now')}")
    from gputui.cli.gpu_tables import seen as devices_seen

    reply = asked(options)
    lanes = reply.lanes if reply is not None else []
    if reply is not None and any(lane.kind == DeviceKind.SLURM for lane in lanes):
        from gputui.cli.gpu_tables import nodes_shown

        return nodes_shown(reply, Paper(), again(options, "gputui gpus slurm:N"), as_json=options.json)
    devices = devices_seen(reply, lanes)
    if options.json:
        print_json({"lanes": lanes, "devices": devices.rows()})
        return 0
    paper = Paper()
    out(devices.text(paper.width or 200))
    for pid, job in (reply.leftovers if reply is not None else {}).items():
        out(f"pid {pid} is left over from #{job}, which has ended; end it with: kill {pid}")
    out(
        "\n".join(drawn(lanes, paper, options))
        if reply is not None
        else "no session here; begin one with: gputui run FILE"
    )
    return 0


def asked(options: Options) -> LanesShown | None:
    """What the session says of its lanes; None: there is no session, and the GPUs are shown all the same."""
    try:
        return session(options).ask(Lanes())
    except NoSession:
        if options.session:
            raise
        return None


def drawn(lanes: list[LaneShown], paper: Paper, options: Options) -> list[str]:
    if not lanes:
        return [f"no lanes; give the session some: {again(options, 'gputui gpus all')}"]
    rows = [
        [str(lane.id), device_names(lane), lane.state, "" if lane.job is None else f"#{lane.job}"] for lane in lanes
    ]
    return table(COLUMNS, rows, paper, ["32" if lane.job is not None else "" for lane in lanes])


def device_names(lane: Lane | LaneShown) -> str:
    return ",".join(lane.devices) or str(lane.kind)


def change(client: Client, options: Options, lanes: list[LaneShown]) -> int:
    before = [lane for lane in lanes if lane.state != "draining"]
    after, notice = wanted(options, before)
    going = gone(before, after)
    jobs = jobs_on(client, going) if options.now else []
    confirm(client, options, jobs, "requeue")
    command(client, SetLanes(tuple(replace(lane, id=number) for number, lane in enumerate(after))))
    if jobs:
        client.ask(Commands(tuple(Requeue(job=job.id, seen=seen(job)) for job in jobs)), work=True)
    if notice:
        say(notice)
    say(f"lanes: {_all_names(after)}")
    busy = sorted(lane.job for lane in going if lane.job is not None)
    if busy and not options.now:
        jobs_told = ", ".join(f"#{job}" for job in busy)
        say(f"{jobs_told} {'goes on to its' if len(busy) == 1 else 'go on to their'} end; --now would requeue instead")
    _wake(client)
    return 0


def jobs_on(client: Client, lanes: list[LaneShown]) -> list[PickedJob]:
    ids = sorted({lane.job for lane in lanes if lane.job is not None})
    if not ids:
        return []
    jobs = client.ask(PickJobs([(job, job) for job in ids])).jobs
    return [job for job in jobs if job.state in ACTIVE and job.state is not StateName.STOPPING]


def wanted(options: Options, before: list[LaneShown]) -> tuple[list[Lane], str | None]:
    """The lanes as they shall be, and what the user should be told about them."""
    written = " ".join(options.words)
    bare = [Lane(lane.id, lane.devices, DeviceKind(lane.kind)) for lane in before]
    sign = written[0] if written[:1] in ("+", "-") and written != "-1" else ""
    named, notice = _parsed(written.removeprefix(sign))
    if sign == "+":
        _check_kinds(bare, named, options)
        return bare + named, notice
    if sign == "-":
        leaving = {device for lane in named for device in lane.devices}
        unknown = leaving - {device for lane in before for device in lane.devices}
        if unknown:
            raise Exit(1, f"no lane has GPU {', '.join(sorted(unknown))}; the lanes are {_all_names(bare)}")
        return _without_some([lane for lane in bare if leaving.isdisjoint(lane.devices)], named), None
    return named, notice


def _check_kinds(lanes: list[Lane], added: list[Lane], options: Options) -> None:
    """Pretended GPUs beside real ones would run real jobs on nothing."""
    if lanes and added and DeviceKind.SIMULATED in {lane.kind for lane in lanes} ^ {lane.kind for lane in added}:
        anew = again(options, "gputui gpus sim:4")
        refuse(f"simulated GPUs and others cannot be mixed in one session; give all lanes anew: {anew}")


def _without_some(lanes: list[Lane], named: list[Lane]) -> list[Lane]:
    """Lanes without devices are all alike: so many of them less as are named."""
    for kind in (lane.kind for lane in named if not lane.devices):
        lane = next((lane for lane in lanes if lane.kind is kind and not lane.devices), None)
        if lane is not None:
            lanes.remove(lane)
    return lanes


def _all_names(lanes: list[Lane]) -> str:
    if lanes and not any(lane.devices for lane in lanes):
        return f"{lanes[0].kind}:{len(lanes)}"
    return " ".join(map(device_names, lanes)) or "none"


def _parsed(written: str) -> tuple[list[Lane], str | None]:
    from gputui.gpus.hardware import find_hardware
    from gputui.gpus.lanes import BadGpus, lanes, parse_gpus

    try:
        given_lanes = lanes(parse_gpus(written), find_hardware())
    except BadGpus as error:
        refuse(str(error))
    return list(given_lanes.lanes), given_lanes.notice


def gone(before: list[LaneShown], after: list[Lane]) -> list[LaneShown]:
    """Lanes that have no like in the new list; of equal ones the busy stay."""
    unmatched = [(lane.devices, str(lane.kind)) for lane in after]
    going = []
    for lane in sorted(before, key=lambda lane: lane.job is None):
        like = (lane.devices, lane.kind)
        if like in unmatched:
            unmatched.remove(like)
        else:
            going.append(lane)
    return going


def _wake(client: Client) -> None:
    """Jobs that waited for such a lane can start now, and somebody must start them."""
    status = client.ask(StatusQuestion())
    if status.owner is None and status.waiting and status.scheduler.state is Mode.RUNNING:
        client.ask(StatusQuestion(), work=True)
