"""Entry point of `python -m gputui.gpus.nvml DATA_FD INTERVAL`.

Writes samples to the descriptor DATA_FD and reads orders from standard input.
"""

from __future__ import annotations

import os
import sys

from .publisher import Publisher, clamped


def main() -> None:
    data, interval = int(sys.argv[1]), clamped(float(sys.argv[2]))
    Publisher(control=0, data=data, interval=interval).run()


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    # A normal exit would wait for threads that may hang in the driver, and shut the driver down while they use it.
    os._exit(0)
