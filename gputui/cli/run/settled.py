"""Flags that were not given take what the settings say."""

from __future__ import annotations

import argparse

from gputui.cli.output.words import refuse
from gputui.gpus.wanted import BadGpus, parse_gpus
from gputui.session.config import DEFAULT, Config, load

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
