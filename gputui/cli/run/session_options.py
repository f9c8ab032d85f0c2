"""Session options of `run` and the app.

They come from flags and config files, and may conflict with a session that another process owns.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputui.cli.command import ask_yes_no, on_terminal, suggest_in
from gputui.cli.output import Exit, refuse, say
from gputui.cli.parser import Options
from gputui.core.slots import DeviceKind, NodeSize, Slot
from gputui.gpus.hardware import find_hardware
from gputui.gpus.sampler_process import ProcessSampler, sample_once
from gputui.gpus.slots import All, BadGpus, SlurmSlots, Wanted, parse_gpus
from gputui.gpus.slots import slots as slots_for
from gputui.session.client import Client
from gputui.session.config import CLUSTER_OPTIONS, DEFAULT, SESSION_OPTIONS, Config, load
from gputui.session.creation import cpu_jobs, format_slots, slots_of
from gputui.session.devices import slot_changes
from gputui.session.job_directories import layout_error
from gputui.session.messages import Layout, StatusQuestion
from gputui.session.owner.requests import Begin, Begun, devices_of
from gputui.session.ownership.acquisition import AlreadyOwned
from gputui.sources.settings import JobSettings

APP_PROBE = 600.0
"""Default number of seconds before a probe in the app, which gives the user time to fix the cause."""
HOG_DIRECTORY = "hog_run"
"""Default session directory if gpu-hog's flags are used."""
PATIENCE = 5.0


class SessionOptions(Struct, frozen=True, kw_only=True):
    """The session options from flags, environment variables and config files."""

    output_dir: str
    layout: Layout
    layout_named: bool
    daemon: bool
    gpus: Wanted | None
    gpus_named: bool
    """Whether the GPUs were named by a flag rather than only by a config file."""
    settings: dict[str, Any]
    """Values by field name of `Settings`. None leaves a setting unchanged."""
    named: frozenset[str]
    """Names of the settings given by flags."""
    jobs: JobSettings


def session_options(options: Options) -> SessionOptions:
    """Combine flags and config files.

    Flags take precedence but cannot turn off a switch that a config file turns on.
    """
    config = load([*options.jobs, *(file for file in (options.job_file, options.job_yielder) if file)])
    flags = {option.field: getattr(options, option.field) for option in SESSION_OPTIONS}
    if options.subcommand == "run" and options.fail_fast:
        if options.pause_after not in (None, 1):
            refuse("use either --fail-fast or --pause-after")
        flags["pause_after"] = 1
    named = frozenset(field for field, value in flags.items() if value is not None and value is not False)
    settings = flags | config.session_options(in_cluster=True) | {field: flags[field] for field in named}
    if "probe" not in named:
        default = 0.0 if options.subcommand == "run" else APP_PROBE  # a run is unattended: probe immediately
        settings["probe"] = settings["probe"] if settings["probe"] is not None else default
        if options.subcommand == "run" and flags["pause_after"]:
            settings["probe"] = "off"  # the run must end at this limit
    settings["share_gpus"] = settings["share_gpus"] or None
    settings["sbatch_opt"] = tuple(settings["sbatch_opt"]) if settings["sbatch_opt"] else None
    settings["gpu_file"] = os.path.abspath(settings["gpu_file"]) if settings["gpu_file"] else None
    gpus_named = options.gpus is not None or options.gpu_file is not None
    return SessionOptions(
        output_dir=_output_dir(options, config),
        layout=_layout(options, config),
        layout_named=options.prefix is not None or options.job_dir is not None,
        daemon=not options.no_daemon and bool(config.get("daemon")[0]),
        gpus=options.gpus if gpus_named else _gpus(config),
        gpus_named=gpus_named,
        settings=settings,
        named=named,
        jobs=_job_settings(options, config),
    )


def _output_dir(options: Options, config: Config) -> str:
    configured, origin = config.get("output_dir")
    is_hog = (options.job_file or options.job_yielder) and origin == DEFAULT
    return options.output_dir or (HOG_DIRECTORY if is_hog else str(configured))


def _layout(options: Options, config: Config) -> Layout:
    """Return how job directories are named. Either flag overrides both settings, not only its own."""
    if options.prefix is not None and options.job_dir is not None:
        refuse("use either --prefix or --job-dir")
    prefix = options.prefix if options.prefix is not None else config.get("prefix")[0]
    job_dir = options.job_dir if options.job_dir is not None else config.get("job_dir")[0]
    layout = Layout(prefix, "" if options.prefix is not None else job_dir)
    if (wrong := layout_error(layout)) is not None:
        refuse(wrong)
    return layout


def _gpus(config: Config) -> Wanted | None:
    written, origin = config.gpus()
    try:
        return None if written is None else parse_gpus(written)
    except BadGpus as error:
        refuse(f"{origin}: {error}")


def _job_settings(options: Options, config: Config) -> JobSettings:
    if options.timeout == 0:
        refuse("--timeout 0 would stop every job at once; omit it for no limit")
    flags = JobSettings(
        retries=options.retries,
        timeout=options.timeout,
        shell=options.shell,
        login_shell=options.login_shell or None,
        snapshot=options.snapshot or None,
        group=options.project,
    )
    return flags.over(config.job_settings())


# Slots


class WantedSlots(Struct, frozen=True):
    """The slots for a session, with a notice about them for the user."""

    slots: tuple[Slot, ...]
    notice: str | None = None
    given: bool = False
    """Whether the user chose the slots. Otherwise they are the default."""
    change: bool = False
    """Whether to replace the slots of a session that has different ones."""
    largest: NodeSize | None = None


def wanted_slots(options: SessionOptions, named_by_input: str | None = None) -> WantedSlots:
    """Return the slots to use. Exit if they do not exist or the driver is broken.

    A flag overrides the GPUs named by an input (`named_by_input`), which override the settings.
    """
    hardware, file = find_hardware(), options.settings["gpu_file"]
    gpus, change = options.gpus, options.gpus_named
    try:
        if file:
            return WantedSlots(slot_changes.read(file), change=True)
        if named_by_input is not None and not change:
            gpus, change = parse_gpus(named_by_input), True
        if isinstance(gpus, SlurmSlots):
            return _slots_in_slurm(options, gpus, change=change)
        chosen = slots_for(gpus or All(), hardware)
    except BadGpus as error:
        refuse(f"--gpu-file {file}: {error}" if file else str(error))
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"--gpu-file {file}: {getattr(error, 'strerror', 'not valid UTF-8')}")
    if hardware.gpus and any(slot.kind is DeviceKind.GPU for slot in chosen.slots):
        _refuse_broken_driver()
    return WantedSlots(chosen.slots, chosen.notice, gpus is not None, change)


def _refuse_broken_driver() -> None:
    with closing(ProcessSampler()) as sampler:
        sample = sample_once(sampler, PATIENCE)
    if sample is not None and sample.trouble is not None:
        refuse(f"{sample.trouble.message}; {sample.trouble.advice} (no GPU? --gpus cpu:4)")


def _slots_in_slurm(options: SessionOptions, wanted: SlurmSlots, *, change: bool) -> WantedSlots:
    """Return slots for a cluster.

    Exit if the cluster lacks what the options request. A cluster that does not answer now is accepted.
    """
    from gputui.session.devices.cluster import ClusterError, inspect_cluster

    try:
        cluster = inspect_cluster({field: options.settings[field] for field in CLUSTER_OPTIONS})
    except ClusterError as error:
        refuse(str(error))
    slots = slots_for(SlurmSlots(wanted.slots or cluster.most_jobs), find_hardware()).slots
    return WantedSlots(slots, cluster.trouble or None, True, change, cluster.largest)


def describe_slots(begun: Begun, notice: str | None) -> str | None:
    """Describe the session's slots if they are not what the user would expect."""
    if begun.kept and begun.differ:
        return f"keeping this session's slots ({format_slots(begun.slots)}); change with --gpus"
    if begun.before:
        return f"slots changed to {format_slots(begun.slots)}; they were {format_slots(begun.before)}"
    return notice if not begun.kept else None


def begin_request(options: SessionOptions, wanted: WantedSlots) -> Begin:
    """Return the request to open a session.

    For a local session, cluster options from config files are ignored, but those from flags are not.
    """
    in_cluster = any(slot.kind is DeviceKind.SLURM for slot in wanted.slots)
    ignored = set() if in_cluster else set(CLUSTER_OPTIONS) - options.named
    return Begin(
        slots=wanted.slots,
        given=wanted.given,
        change_slots=wanted.change,
        layout=options.layout if options.layout_named else None,
        largest=wanted.largest,
        settings={field: value for field, value in options.settings.items() if field not in ignored}
        | {"cpu_jobs": cpu_jobs()},
    )


# Conflicts with a session that another process owns


class Difference(Struct, frozen=True):
    """An option whose value in the session differs from the given value, described as text."""

    current: str
    wanted: str
    name: str
    alternative: str | None = None
    """Another way for the user to get the wanted value."""


def confirm_conflicts(
    client: Client, owned: AlreadyOwned, options: SessionOptions, wanted: WantedSlots, *, yes: bool, ask: bool = True
) -> Begin:
    """Return the changes to request from the owner after the user has agreed to them. Exit if the user disagrees.

    Only flags count here, because config files are for opening a session. `yes`: the user has already agreed on the
    command line. `ask`: whether the user can be asked.
    """
    request = begin_request(options, wanted)
    named = {field: value for field, value in request.settings.items() if field in options.named}
    change, differences = find_conflicts(client, replace(request, settings=named))
    if not differences or yes:
        return change
    current = _join([difference.current for difference in differences])
    sentence = f"{client.root} is open in gputui {owned.kind} (pid {owned.pid}) with {current}"
    if not (ask and on_terminal()):
        refuse(f"{sentence}: agree with -y, {_ways_out(differences)}")
    say(sentence)
    if not ask_yes_no(f"change to {_join([difference.wanted for difference in differences])}?"):
        raise Exit(2, f"nothing added: {_ways_out(differences)}")
    return change


def find_conflicts(client: Client, named: Begin) -> tuple[Begin, list[Difference]]:
    """Compare the session with the given options.

    Return a request that would change the session to match, and the differences as text.
    """
    status = client.ask(StatusQuestion())
    changes: dict[str, Any] = {"slots": None, "layout": None}
    differences = []
    if named.slots is not None and named.change_slots and devices_of(slots_of(client)) != devices_of(named.slots):
        changes["slots"] = named.slots
        words = format_slots(named.slots)
        way = f"change its slots ({suggest_in(client.root, f'gputui gpus {shlex.quote(words)}')})"
        differences.append(Difference("other slots", f"slots {words}", "--gpus", way))
    layout = named.layout
    if layout is not None and layout != status.layout:
        changes["layout"] = layout
        directories = f"job directories {layout.job_dir or layout.prefix + 'N'}"
        differences.append(Difference("other job directories", directories, "--prefix or --job-dir"))
    for option in SESSION_OPTIONS:
        current, wanted = getattr(status.settings, option.field), named.settings.get(option.field)
        current = "off" if option.field == "probe" and current is None else current
        if wanted is not None and current != wanted:
            text = _format_flag(option.flag, wanted)
            differences.append(Difference(f"{_format_flag(option.flag, current)}, not {text}", text, option.flag))
    return replace(named, **changes, resume=False), differences


def _format_flag(flag: str, value: object) -> str:
    """Format an option as it would be written on a command line."""
    if value is None or value is False or value == ():
        return f"no {flag}"
    if value is True:
        return flag
    if isinstance(value, tuple):
        return f"{flag} {','.join(value)}"
    return f"{flag} {value:g}" if isinstance(value, int | float) else f"{flag} {value}"


def _ways_out(differences: Sequence[Difference]) -> str:
    ways = ["use another directory (--output-dir, GPUTUI_OUTPUT_DIR)"]
    ways += [difference.alternative for difference in differences if difference.alternative is not None]
    return ", ".join(ways) + f", or omit {_join([difference.name for difference in differences])}"


def _join(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
