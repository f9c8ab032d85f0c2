"""What the flags of run and app ask of a session, and conflicts with its owner."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.cli.command import again_in, agreed, on_terminal
from gputui.cli.output import Exit, refuse, say
from gputui.core.events import Settings
from gputui.core.lanes import DeviceKind
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import All, BadGpus, GivenLanes, SlurmLanes, parse_gpus
from gputui.gpus.lanes import lanes as lanes_for
from gputui.gpus.sampler_process import ProcessSampler, sample_once
from gputui.session.client import Client
from gputui.session.config import DEFAULT, Config, load
from gputui.session.creation import lane_words, lanes_of
from gputui.session.devices import lane_changes
from gputui.session.layouts import Layout, trouble
from gputui.session.loading import Again
from gputui.session.messages import LayoutShown, StatusQuestion
from gputui.session.owner.requests import Begin, Begun, devices_of
from gputui.session.ownership.acquisition import Owned
from gputui.sources.kinds import Kind
from gputui.sources.settings import JobSettings

from .inputs import Named

TYPE_CHECKING = False  # typing takes long to import

if TYPE_CHECKING:
    pass


# ---- Flags that were not given take what the settings say ----


NOT_ITS_OWN = object()
"""A flag that this verb does not have."""
TAKEN = (
    "output_dir", "prefix", "job_dir", "pause_after", "probe", "grace", "retries", "timeout", "shell", "keep_free",
    "at_most", "ignore", "theme",
)  # fmt: skip
HOG_FOLDER = "hog_run"
"""Where gpu-hog's flags put their jobs when nothing is said."""
SWITCHES = ("login_shell", "ignore_strangers")
OF_A_CLUSTER = ("partition", "account", "qos", "time", "constraint", "sbatch_opt")
OF_THE_SESSION = (
    "pause_after",
    "probe",
    "grace",
    "at_most",
    "keep_free",
    "ignore_strangers",
    "ignore",
    "gpu_file",
    *OF_A_CLUSTER,
)
"""Flags that say how the whole session is scheduled, not only the jobs of this call."""


APP_PROBE = 600.0
"""Somebody may look at the screen and mend it meanwhile."""


def settle(options: argparse.Namespace, probe: float = APP_PROBE) -> None:
    """A value: None is not given. A switch: the settings can turn it on, the flag cannot turn it off."""
    config = load([*options.jobs, *(file for file in (options.job_file, options.job_yielder) if file)])
    folder_given = options.output_dir is not None
    options.job_defaults = config.job_settings()
    _settle_layout(options)
    options.named = frozenset(key for key in OF_THE_SESSION if _is_given(getattr(options, key)))
    for key in TAKEN:
        if getattr(options, key, NOT_ITS_OWN) is None:
            setattr(options, key, config.get(key)[0])
    for key in SWITCHES:
        setattr(options, key, getattr(options, key) or bool(config.get(key)[0]))
    if (options.job_file or options.job_yielder) and config.get("output_dir")[1] == DEFAULT and not folder_given:
        options.output_dir = HOG_FOLDER
    options.no_keeper = options.no_keeper or not config.get("keeper")[0]
    for key in OF_A_CLUSTER:
        if getattr(options, key) is None:
            setattr(options, key, config.get(f"engine.{key}")[0])
    options.gpus_given = options.gpus is not None or options.gpu_file is not None
    if options.gpus is None and not options.gpu_file:
        options.gpus = _gpus(config)
    if options.probe is None:
        options.probe = probe


def settle_for_run(options: argparse.Namespace) -> None:
    """Nobody looks: jobs are tried at once after crashes. Whoever names a limit wants the run to end there."""
    if options.fail_fast:
        if options.pause_after not in (None, 1):
            refuse("--fail-fast is --pause-after 1; give one of them")
        options.pause_after = 1
    if options.pause_after and options.probe is None:
        options.probe, probe_named = "off", False
    else:
        probe_named = options.probe is not None
    settle(options, 0.0)
    if not probe_named:
        options.named -= {"probe"}


def _is_given(value: object) -> bool:
    """0 is a value."""
    return value is not None and value is not False


def _settle_layout(options: argparse.Namespace) -> None:
    """Either flag names the folders; what the settings say of the other one must not drop it."""
    if options.prefix is not None and options.job_dir is not None:
        refuse("--prefix and --job-dir both name the jobs' folders; give one of them")
    options.layout_given = options.prefix is not None or options.job_dir is not None
    if options.prefix is not None:
        options.job_dir = ""


def _gpus(config: Config) -> object:
    written, origin = config.gpus()
    if written is None:
        return None
    try:
        return parse_gpus(written)
    except BadGpus as error:
        refuse(f"{origin}: {error}")


# ---- driver ----


PATIENCE = 5.0


def refuse_broken_driver() -> None:
    sampler = ProcessSampler()
    try:
        sample = sample_once(sampler, PATIENCE)
    finally:
        sampler.close()
    if sample is not None and sample.trouble is not None:
        refuse(f"{sample.trouble.message}; {sample.trouble.advice} (without GPUs: --gpus cpu:4)")


# ---- What the flags of `run` and of the app ask of a session ----


def job_settings(options: argparse.Namespace) -> JobSettings:
    if options.timeout == 0:
        refuse("--timeout 0 would end every job at once; leave it out for no limit")
    said = JobSettings(
        retries=options.retries,
        timeout=options.timeout,
        shell=options.shell,
        login_shell=options.login_shell or None,
        group=options.project,
    )
    defaults: JobSettings = options.job_defaults
    return said.over(defaults)


def named_inputs(options: argparse.Namespace, again: Again) -> Named:
    return Named(
        jobs=[*([options.job_file] if options.job_file else []), *options.jobs],
        job_yielder=options.job_yielder,
        follow=options.follow,
        task_bundle=getattr(options, "task_bundle", None),
        task=options.task,
        kind=Kind(options.format) if options.format else None,
        again=again,
    )


def wanted_lanes(options: argparse.Namespace, named_by_input: str | None = None) -> GivenLanes:
    """Refuses what is not there, and a driver that is broken.

    An input that names its GPUs is given them, also by a session with others; the flag counts more, settings less.
    """
    hardware = find_hardware()
    options.largest = None
    try:
        if options.gpu_file:
            return GivenLanes(lane_changes.read(options.gpu_file), None)
        if named_by_input is not None and not options.gpus_given:
            options.gpus, options.set = parse_gpus(named_by_input), True
        if isinstance(options.gpus, SlurmLanes):
            return _lanes_in_slurm(options, options.gpus)
        given_lanes = lanes_for(options.gpus or All(), hardware)
    except BadGpus as error:
        refuse(f"--gpu-file {options.gpu_file}: {error}" if options.gpu_file else str(error))
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"--gpu-file {options.gpu_file}: {getattr(error, 'strerror', 'it is not UTF-8')}")
    if hardware.gpus and any(lane.kind is DeviceKind.GPU for lane in given_lanes.lanes):
        refuse_broken_driver()
    return given_lanes


def _lanes_in_slurm(options: argparse.Namespace, wanted: SlurmLanes) -> GivenLanes:
    """Refuses what the cluster does not have. One that does not answer now is waited for later."""
    from gputui.session.cluster import ClusterError, inspected

    try:
        cluster = inspected(_of_a_cluster(options))
    except ClusterError as error:
        refuse(str(error))
    options.largest = cluster.largest
    given_lanes = lanes_for(SlurmLanes(wanted.lanes or cluster.most_jobs), find_hardware())
    return replace(given_lanes, notice=cluster.trouble or None)


def _of_a_cluster(options: argparse.Namespace) -> dict[str, Any]:
    values = {key: getattr(options, key) for key in OF_A_CLUSTER}
    return {**values, "sbatch_opt": tuple(values["sbatch_opt"]) if values["sbatch_opt"] else None}


def begin_request(options: argparse.Namespace, given_lanes: GivenLanes) -> Begin:
    return Begin(
        lanes=given_lanes.lanes,
        given=options.gpus is not None,
        change_lanes=options.gpus_given or options.set,
        cpu_jobs=max(1, len(os.sched_getaffinity(0)) // 2),
        pause_after=options.pause_after,
        probe=options.probe,
        grace=options.grace,
        at_most=options.at_most,
        keep_free=options.keep_free,
        ignore_strangers=options.ignore_strangers or None,
        ignored=tuple(options.ignore.split(",")) if options.ignore else None,
        gpu_file=os.path.abspath(options.gpu_file) if options.gpu_file else None,
        layout=layout(options) if options.layout_given else None,
        largest=options.largest,
        **_asked_of_cluster(options, given_lanes),
    )


def _asked_of_cluster(options: argparse.Namespace, given_lanes: GivenLanes) -> dict[str, Any]:
    """What is only set in a file is for sessions in a cluster; what is named must be obeyed or refused."""
    in_cluster = any(lane.kind is DeviceKind.SLURM for lane in given_lanes.lanes)
    cluster_settings = _of_a_cluster(options)
    return {key: value for key, value in cluster_settings.items() if in_cluster or key in options.named}


def named_request(options: argparse.Namespace, given_lanes: GivenLanes) -> Begin:
    """The same without what only the settings say: they are for whoever opens a session."""
    request = begin_request(options, given_lanes)
    said = {"ignored" if key == "ignore" else key for key in OF_THE_SESSION if key not in options.named}
    return replace(request, **dict.fromkeys(said))


def told_of_lanes(begun: Begun, notice: str | None) -> str | None:
    """What the user must know about the lanes they got."""
    if begun.kept and begun.differ:
        return f"this session keeps its lanes ({lane_words(begun.lanes)}); --gpus gives it others"
    if begun.before:
        return f"the lanes are {lane_words(begun.lanes)} now; they were {lane_words(begun.before)}"
    return notice if not begun.kept else None


def layout(options: argparse.Namespace) -> Layout:
    return Layout(options.prefix, options.job_dir)


# ---- Refuses names for the jobs' folders that cannot be given ----


def check_layout(layout: Layout) -> None:
    sentence = trouble(layout)
    if sentence is not None:
        refuse(sentence)


# ---- `run` on a session that another program owns ----


FLAGS = {
    "pause_after": "--pause-after",
    "probe": "--probe",
    "grace": "--grace",
    "at_most": "--at-most",
    "keep_free": "--keep-free",
    "ignore_strangers": "--ignore-strangers",
    "ignored": "--ignore",
    "gpu_file": "--gpu-file",
    "partition": "--partition",
    "account": "--account",
    "qos": "--qos",
    "time": "--time",
    "constraint": "--constraint",
    "sbatch_opt": "--sbatch-opt",
}


class Difference(msgspec.Struct, frozen=True):
    """One thing that was named and is not so yet, in words."""

    has: str
    """Instead of it."""
    wanted: str
    name: str
    way: str | None = None
    """How else it can be had."""


def agree(client: Client, owned: Owned, named: Begin, *, yes: bool) -> Begin:
    """What the owner is to be asked of what was named, with the user's consent; ends the program if nobody gives it.

    `yes`: the user has agreed on the command line.
    """
    change, differences = compared(client, named)
    if not differences or yes:
        return change
    has = _listed([each.has for each in differences])
    sentence = f"{client.root} is open in gputui {owned.kind} (pid {owned.pid}) with {has}"
    if not on_terminal():
        refuse(f"{sentence}: agree with -y, {_ways_out(differences)}")
    say(sentence)
    if not agreed(f"give it {_listed([each.wanted for each in differences])}?"):
        raise Exit(2, f"nothing was added: {_ways_out(differences)}")
    return change


def compared(client: Client, named: Begin) -> tuple[Begin, list[Difference]]:
    """Of what was named, that which is not so yet: as a request, and in words."""
    status = client.ask(StatusQuestion())
    lanes, layout = _other_lanes(client, named), _other_layout(status.layout, named)
    differences = [*lanes, *layout, *_other_settings(status.settings, named)]
    change = replace(
        named,
        lanes=named.lanes if lanes else None,
        layout=named.layout if layout else None,
        cpu_jobs=status.settings.cpu_jobs,  # nobody names it: the owner's stays
        resume=False,
    )
    return change, differences


def _other_lanes(client: Client, named: Begin) -> list[Difference]:
    if named.lanes is None or not named.change_lanes or devices_of(lanes_of(client)) == devices_of(named.lanes):
        return []
    words = lane_words(named.lanes)
    way = f"change its lanes ({again_in(client.root, f'gputui gpus {shlex.quote(words)}')})"
    return [Difference("other lanes", f"the lanes {words}", "the GPUs", way)]


def _other_layout(shown: LayoutShown, named: Begin) -> list[Difference]:
    layout = named.layout
    if layout is None or (shown.prefix, shown.job_dir) == (layout.prefix, layout.job_dir):
        return []
    return [Difference("other folders for its jobs", f"folders {layout.job_dir or layout.prefix + 'N'}", "the folders")]


def _other_settings(settings: Settings, named: Begin) -> list[Difference]:
    differences = []
    for field, flag in FLAGS.items():
        has, wanted = getattr(settings, field), getattr(named, field)
        has = "off" if field == "probe" and has is None else has
        if wanted is not None and has != wanted:
            words = _words(flag, wanted)
            differences.append(Difference(f"{_words(flag, has)}, not {words}", words, flag))
    return differences


def _words(flag: str, value: object) -> str:
    """As it would be written on a command line."""
    if value is None or value is False or value == ():
        return f"no {flag}"
    if value is True:
        return flag
    if isinstance(value, tuple):
        return f"{flag} {','.join(value)}"
    return f"{flag} {value:g}" if isinstance(value, int | float) else f"{flag} {value}"


def _ways_out(differences: Sequence[Difference]) -> str:
    ways = ["take another folder (--output-dir, GPUTUI_OUTPUT_DIR)"]
    ways += [each.way for each in differences if each.way is not None]
    return ", ".join(ways) + f", or do not name {_listed([each.name for each in differences])}"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
