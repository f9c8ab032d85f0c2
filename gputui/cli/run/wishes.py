"""What the flags of `run` and of the app ask of a session: its lanes, its settings, its jobs' defaults."""

from __future__ import annotations

import argparse
import os
from typing import Any

from msgspec.structs import replace

from gputui.cli.output.words import refuse
from gputui.core.lanes import DeviceKind
from gputui.gpus.hardware import Gpu, find_hardware
from gputui.gpus.lanes import GivenLanes
from gputui.gpus.lanes import lanes as lanes_for
from gputui.gpus.wanted import All, BadGpus, SlurmLanes, parse_gpus
from gputui.session.devices import gpu_file
from gputui.session.devices.lane_lists import lane_words
from gputui.session.files.layouts import Layout
from gputui.session.owner.load_plan import Again
from gputui.session.owner.requests import Begin, Begun
from gputui.sources.kinds import Kind
from gputui.sources.settings.table import JobSettings

from .driver import refuse_broken_driver
from .inputs import Named
from .settled import OF_A_CLUSTER, OF_THE_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputui.gpus.picture import DevicesPicture


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
            return GivenLanes(gpu_file.read(options.gpu_file), None)
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


def lanes_on_screen(options: argparse.Namespace, given_lanes: GivenLanes, monitored: DevicesPicture) -> GivenLanes:
    """NVML may know cards that have no device node here: whoever looks at them means them."""
    named = options.gpu_file or not isinstance(options.gpus or All(), All)
    samples = [device.sample for device in monitored.devices if device.sample.mig is None]
    hardware = find_hardware()
    if named or monitored.kind is not DeviceKind.GPU or not samples or hardware.gpus:
        return given_lanes
    gpus = tuple(Gpu(sample.index, sample.uuid, sample.name) for sample in samples)
    return lanes_for(All(), replace(hardware, gpus=gpus))


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
