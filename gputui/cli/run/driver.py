"""Hardware that is there but cannot be read is refused with the sentence that helps, never turned into CPU lanes."""

from __future__ import annotations

from gputui.cli.output.words import refuse
from gputui.gpus.process import ProcessSampler
from gputui.gpus.watch import sample_once

PATIENCE = 5.0


def refuse_broken_driver() -> None:
    sampler = ProcessSampler()
    try:
        sample = sample_once(sampler, PATIENCE)
    finally:
        sampler.close()
    if sample is not None and sample.trouble is not None:
        refuse(f"{sample.trouble.message}; {sample.trouble.advice} (without GPUs: --gpus cpu:4)")
