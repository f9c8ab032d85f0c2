"""A program, run by `popen_spawn`: gives itself the descriptors it is told, default signals, and becomes another."""

import fcntl
import os
import signal
import sys


def main(copies: str, arguments: list[str]) -> None:
    wanted = {int(number): int(fd) for fd, _, number in (pair.partition(":") for pair in copies.split(","))}
    # First out of the way of each other, then into their places; what is left over closes by itself.
    above = max((*wanted, *wanted.values())) + 1
    high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for number, fd in wanted.items()}
    for fd in set(wanted.values()):
        os.close(fd)
    for number, fd in high.items():
        os.dup2(fd, number)
    for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(arguments[0], arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
