"""A pretend training: bars on stderr, losses on stdout, a checkpoint, and no GPU. The demo copies it into its folder.

Uses the standard library only; knows nothing of gputui but the variables that every job is given.
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
"""With a large batch an epoch takes this part of the time."""
STEPS = 100
WIDTH = 78
REDRAW = 0.2
LOADING = 1.2


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A pretend training.")
    parser.add_argument("--net", choices=SECONDS_PER_EPOCH, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--bs", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


class Training:
    def __init__(self, wanted: argparse.Namespace) -> None:
        self.wanted = wanted
        self.speed = float(os.environ.get("PRETEND_SPEED", "1"))
        self.chance = random.Random(f"{wanted.net} {wanted.lr} {wanted.bs}")
        self.seconds = SECONDS_PER_EPOCH[wanted.net] * (LARGE_BATCH if wanted.bs > 128 else 1.0)
        self.checkpoint = Path(os.environ.get("GPUTUI_CHECKPOINT_DIR", ".")) / "last.txt"
        self.epoch = 0

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._asked_to_end)
        wanted = self.wanted
        print(
            f"{wanted.net}  lr {wanted.lr:g}  batch size {wanted.bs}  on GPU {os.environ.get('CUDA_VISIBLE_DEVICES')}"
        )
        print("loading 50,000 images")
        time.sleep(LOADING / self.speed)
        if wanted.net == "vit":
            import augment_v2

            print(f"augmentation: {augment_v2.NAME}")
        self._resume()
        while self.epoch < wanted.epochs:
            self.epoch += 1
            self._train()
        print(f"done: best accuracy {self._accuracy(wanted.epochs):.1%}")

    def _train(self) -> None:
        begun = time.monotonic()
        lasts = self.seconds / self.speed
        while (spent := time.monotonic() - begun) < lasts:
            self._draw(spent / lasts, spent)
            time.sleep(min(REDRAW, lasts))
        sys.stderr.write(f"\r{'':<{WIDTH}}\r")
        loss, accuracy = self._loss(float(self.epoch)), self._accuracy(self.epoch)
        on_others = 1.06 * loss + 0.002 * self.epoch
        print(f"epoch {self.epoch}/{self.wanted.epochs}  loss {loss:.4f}  val_loss {on_others:.4f}  acc {accuracy:.1%}")
        self._save()

    def _draw(self, part: float, spent: float) -> None:
        """As tqdm draws a bar that goes when it is full."""
        step = int(part * STEPS)
        bar = "█" * (step * 10 // STEPS)
        remaining, rate = spent / part - spent if part else 0.0, step / spent if spent else 0.0
        clock = f"[{_clock(spent)}<{_clock(remaining)}, {rate:.1f}it/s, loss={self._loss(self.epoch - 1 + part):.3f}]"
        line = f"epoch {self.epoch}/{self.wanted.epochs}: {step:3d}%|{bar:<10}| {step}/{STEPS} {clock}"
        sys.stderr.write(f"\r{line:<{WIDTH}}")
        sys.stderr.flush()

    def _loss(self, epochs: float) -> float:
        return 0.35 + 4.2 * math.exp(-epochs * (0.22 + self.wanted.lr)) + self.chance.uniform(-0.03, 0.03)

    def _accuracy(self, epochs: int) -> float:
        return 0.86 * (1 - math.exp(-epochs * (0.25 + self.wanted.lr / 2))) + self.chance.uniform(0, 0.02)

    # Checkpoints

    def _save(self) -> None:
        self.checkpoint.write_text(str(self.epoch))

    def _resume(self) -> None:
        if self.checkpoint.exists():
            self.epoch = int(self.checkpoint.read_text())
            print(f"going on after epoch {self.epoch}, from {self.checkpoint.name}")

    def _asked_to_end(self, number: int, frame: Any) -> None:
        print(f"\nSIGTERM: the checkpoint of epoch {max(0, self.epoch - 1)} is kept")
        sys.exit(128 + number)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    Training(options()).run()
