"""A fake training run that uses no GPU.

It prints progress bars to stderr and losses to stdout, and writes a checkpoint.

The demo copies this file into its directory. It uses only the standard library and the environment variables that every
job gets.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

SECONDS_PER_EPOCH = {"mlp": 0.7, "rn18": 1.4, "unet": 3.0, "rn50": 3.4, "vit": 3.8}
LARGE_BATCH = 0.62
"""Factor by which a large batch shortens an epoch."""
STEPS = 100
WIDTH = 78
REDRAW = 0.2
LOADING = 1.2


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A fake training run.")
    parser.add_argument("--net", choices=SECONDS_PER_EPOCH, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--bs", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


class Training:
    def __init__(self, config: argparse.Namespace) -> None:
        self.config = config
        self.speed = float(os.environ.get("PRETEND_SPEED", "1"))
        self.chance = random.Random(f"{config.net} {config.lr} {config.bs}")
        self.seconds = SECONDS_PER_EPOCH[config.net] * (LARGE_BATCH if config.bs > 128 else 1.0)
        self.checkpoint = Path(os.environ.get("GPUTUI_CHECKPOINT_DIR", ".")) / "last.txt"
        self.epoch = 0

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        config = self.config
        print(
            f"{config.net}  lr {config.lr:g}  batch size {config.bs}  on GPU {os.environ.get('CUDA_VISIBLE_DEVICES')}"
        )
        print("loading 50,000 images")
        time.sleep(LOADING / self.speed)
        if config.net == "vit":
            import augment_v2

            print(f"augmentation: {augment_v2.NAME}")
        if self.checkpoint.exists():
            self.epoch = int(self.checkpoint.read_text())
            print(f"resuming after epoch {self.epoch}, from {self.checkpoint.name}")
        while self.epoch < config.epochs:
            self.epoch += 1
            self._train()
        print(f"done: best accuracy {self.accuracy(config.epochs):.1%}")

    def _train(self) -> None:
        began = time.monotonic()
        duration = self.seconds / self.speed
        while (spent := time.monotonic() - began) < duration:
            self._draw(spent / duration, spent)
            time.sleep(min(REDRAW, duration))
        sys.stderr.write(f"\r{'':<{WIDTH}}\r")
        self.report()
        self.checkpoint.write_text(str(self.epoch))

    def report(self) -> None:
        """Print the figures of an epoch."""
        loss, accuracy = self._loss(float(self.epoch)), self.accuracy(self.epoch)
        on_others = 1.06 * loss + 0.002 * self.epoch
        print(f"epoch {self.epoch}/{self.config.epochs}  loss {loss:.4f}  val_loss {on_others:.4f}  acc {accuracy:.1%}")

    def _draw(self, fraction: float, spent: float) -> None:
        """Draw a progress bar like tqdm's."""
        step = int(fraction * STEPS)
        bar = "█" * (step * 10 // STEPS)
        remaining, rate = spent / fraction - spent if fraction else 0.0, step / spent if spent else 0.0
        clock = (
            f"[{_clock(spent)}<{_clock(remaining)}, {rate:.1f}it/s, loss={self._loss(self.epoch - 1 + fraction):.3f}]"
        )
        line = f"epoch {self.epoch}/{self.config.epochs}: {step:3d}%|{bar:<10}| {step}/{STEPS} {clock}"
        sys.stderr.write(f"\r{line:<{WIDTH}}")
        sys.stderr.flush()

    def _loss(self, epochs: float) -> float:
        return 0.35 + 4.2 * math.exp(-epochs * (0.22 + self.config.lr)) + self.chance.uniform(-0.03, 0.03)

    def accuracy(self, epochs: int) -> float:
        return 0.86 * (1 - math.exp(-epochs * (0.25 + self.config.lr / 2))) + self.chance.uniform(0, 0.02)

    def _on_sigterm(self, number: int, frame: Any) -> None:
        print(f"\nSIGTERM: saved the checkpoint of epoch {max(0, self.epoch - 1)}")
        sys.exit(128 + number)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    Training(options()).run()
