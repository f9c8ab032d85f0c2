"""The terminal of an interactive job (`gputui exec`): both ends of its connection.

The client listens on a socket in the session's private directory. The job's wrapper runs this file as a script, which
connects to the client, runs the command on a pseudo-terminal, and also copies the output to the job's log. In all other
respects the job is like any other: its wrapper has the claim, the lease and the exit code.

The first byte of a message tells its kind. This file imports only the standard library, because it is also a script.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

DIRECTORY = "terminals"
"""Directory of the sockets in the session's private directory."""
DATA, SIZE, STOPPED, CONTINUE = b"d", b"w", b"s", b"c"
"""The kinds of messages: input or output, the size of the window, the command was stopped (for example by Ctrl-Z), the
user has continued the client.
"""
_PIECE = 4096
_LAST_OUTPUT = 0.2
"""Seconds to wait for more output after the command has ended, if a background process still holds the terminal."""
_SLOW_START = 60.0
"""Seconds that a client may take to send the size of its window."""
_SLOW_CLIENT = 5.0
"""Seconds that a client may take to receive the last output."""
HUNG_UP = 128 + signal.SIGHUP


def _address(private: str, name: str) -> tuple[int, str]:
    """Open the directory of the sockets. Return its descriptor, which the caller must close, and the address of the
    socket through this descriptor. The address is short even if the session's path is long.
    """
    fd = os.open(os.path.join(private, DIRECTORY), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return fd, f"/proc/self/fd/{fd}/{name}"


# In the job


class Terminal:
    """The command, its pseudo-terminal, and the connection to the client while there is one."""

    def __init__(self, client: socket.socket, *, keep: bool, forget: Callable[[], None]) -> None:
        """Create the terminal. `forget` is called when the client is gone."""
        self._client: socket.socket | None = client
        self._keep, self._forget = keep, forget
        client.settimeout(_SLOW_START)
        size = client.recv(_PIECE)[1:]
        if not size:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        client.setblocking(False)
        self._master, self._slave = os.openpty()
        self._pid = 0
        self._to_command = b""
        self._to_client: list[bytes] = []
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # unlike SIG_IGN, this is not inherited by the command
        os.set_blocking(self._master, False)
        # The command has its own process group beside this process, so that Ctrl-Z can stop it.
        os.setsid()
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def run(self, words: list[str]) -> int:
        """Run the command and return its exit code as a shell would."""
        self._pid = os.fork()
        if self._pid == 0:
            self._become(words)
        with suppress(OSError):
            os.setpgid(self._pid, self._pid)
        self._put_in_foreground()
        while (status := self._ended()) is None:
            self._relay()
        self._finish()
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def _become(self, words: list[str]) -> None:
        try:
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            os.tcsetpgrp(self._slave, os.getpid())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            for fd in (0, 1, 2):
                os.dup2(self._slave, fd)
            os.execvp(words[0], words)
        except OSError as error:
            os.write(2, f"gputui: cannot start {words[0]}: {error.strerror}\r\n".encode())
        finally:
            os._exit(127)

    def _put_in_foreground(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with suppress(OSError):
            os.tcsetpgrp(self._slave, self._pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})

    def _ended(self) -> int | None:
        """Return the command's wait status if it has ended. If it is stopped, tell the client to stop as well."""
        found, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if found and os.WIFSTOPPED(status):
            if self._client is None:
                os.killpg(self._pid, signal.SIGCONT)
            else:
                self._to_client.append(STOPPED)
            return None
        return status if found else None

    def _relay(self) -> None:
        """Wait until data can be passed on in either direction, and pass it on."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if self._master >= 0:
            reads = 0 if self._to_client else select.POLLIN
            poll.register(self._master, reads | (select.POLLOUT if self._to_command else 0))
        if self._client is not None:
            reads = 0 if self._to_command else select.POLLIN
            poll.register(self._client, reads | (select.POLLOUT if self._to_client else 0))
        ready = dict(poll.poll())
        if self._woken in ready:
            os.read(self._woken, _PIECE)
        if self._master in ready:
            self._use_master(ready[self._master])
        if self._client is not None and self._client.fileno() in ready:
            self._use_client(ready[self._client.fileno()])

    def _use_master(self, events: int) -> None:
        if events & select.POLLOUT:
            with suppress(BlockingIOError):
                self._to_command = self._to_command[os.write(self._master, self._to_command) :]
        if events & select.POLLIN:
            self._read_output()

    def _read_output(self) -> bool:
        """Copy the command's output to the log and to the client. Return False if there is no output now."""
        try:
            output = os.read(self._master, _PIECE)
        except OSError:
            return False
        with suppress(OSError):  # a full disk must not end the command
            os.write(1, output)
        if self._client is not None:
            self._to_client.append(DATA + output)
        return bool(output)

    def _use_client(self, events: int) -> None:
        assert self._client is not None
        try:
            if events & select.POLLOUT and self._to_client:
                self._client.send(self._to_client[0])
                del self._to_client[0]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._take(self._client.recv(_PIECE + 1))
        except BlockingIOError:
            pass
        except OSError:
            self._lose_client()

    def _take(self, message: bytes) -> None:
        kind, content = message[:1], message[1:]
        if kind == DATA:
            self._to_command = content
        elif kind == SIZE:
            fcntl.ioctl(self._slave, termios.TIOCSWINSZ, content)
        elif kind == CONTINUE:
            self._put_in_foreground()
            os.killpg(self._pid, signal.SIGCONT)
        else:
            self._lose_client()

    def _lose_client(self) -> None:
        """Hang up as a real terminal would. The kernel tells only the leader of the session, which is this process."""
        assert self._client is not None
        self._client.close()
        self._client = None
        self._to_client.clear()
        self._forget()
        with suppress(OSError):
            os.write(1, b"\r\n[gputui: the terminal was disconnected]\r\n")
        if not self._keep:
            for group in {self._pid, os.tcgetpgrp(self._master)}:
                for number in (signal.SIGHUP, signal.SIGCONT):
                    with suppress(OSError):
                        os.killpg(group, number)
            os.close(self._slave)
            os.close(self._master)
            self._master = self._slave = -1

    def _finish(self) -> None:
        """Read the rest of the output and send it to the client."""
        if self._master < 0:
            return
        os.close(self._slave)
        if self._client is not None:
            self._client.settimeout(_SLOW_CLIENT)
        while True:
            with suppress(OSError):
                for message in self._to_client:
                    if self._client is not None:
                        self._client.send(message)
            self._to_client.clear()
            if not select.select([self._master], [], [], _LAST_OUTPUT)[0] or not self._read_output():
                return


def main(name: str, keep: str, *words: str) -> int:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd, address = _address(os.path.join(os.environ["GPUTUI_SESSION"], ".gputui"), name)

    def forget() -> None:
        """Remove the client's socket, because the client is gone and cannot remove it."""
        with suppress(OSError):
            os.unlink(name, dir_fd=fd)

    try:
        client.connect(address)
        terminal = Terminal(client, keep=keep == "keep", forget=forget)
    except OSError as error:
        forget()
        print(f"gputui: the terminal that waited for this job is gone ({error.strerror or error})", flush=True)
        return HUNG_UP
    return terminal.run([*words])


# In the client


@contextmanager
def listening(private: str, name: str) -> Iterator[socket.socket]:
    """Create the socket to which the job connects. Its file is removed at the end of the block."""
    with suppress(FileExistsError):
        os.mkdir(os.path.join(private, DIRECTORY), 0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd, address = _address(private, name)
    try:
        listener.bind(address)
        listener.listen(1)
        yield listener
    finally:
        listener.close()
        with suppress(OSError):
            os.unlink(name, dir_fd=fd)
        os.close(fd)


def show(job: socket.socket) -> None:
    """Connect this terminal to the job's terminal until the job ends or this terminal is gone."""
    before = termios.tcgetattr(0)

    def send_size() -> None:
        with suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
            job.send(SIZE + size, socket.MSG_DONTWAIT)

    def stop() -> None:
        """Stop this process, as Ctrl-Z stops a command of the user's shell. When the user continues it,
        tell the job.
        """
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.kill(0, signal.SIGTSTP)
        tty.setraw(0, termios.TCSADRAIN)
        send_size()
        job.send(CONTINUE)

    handler = signal.signal(signal.SIGWINCH, lambda *_: send_size())
    send_size()
    tty.setraw(0, termios.TCSADRAIN)
    try:
        _exchange(job, stop)
    finally:
        signal.signal(signal.SIGWINCH, handler)
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


def _exchange(job: socket.socket, stop: Callable[[], None]) -> None:
    typed = b""
    while True:
        poll = select.poll()
        poll.register(job, select.POLLIN | (select.POLLOUT if typed else 0))
        if not typed:
            poll.register(0, select.POLLIN)
        ready = dict(poll.poll())
        events = ready.get(job.fileno(), 0)
        try:
            if 0 in ready:
                typed = os.read(0, _PIECE)
                if not typed:
                    return
            if typed:
                job.send(DATA + typed, socket.MSG_DONTWAIT)
                typed = b""
        except BlockingIOError:
            pass
        except OSError:  # one of the two terminals is gone
            return
        if events & (select.POLLIN | select.POLLHUP):
            try:
                message = job.recv(_PIECE + 1)
            except OSError:
                return
            if not message:
                return
            if message[:1] == STOPPED:
                stop()
                continue
            shown = message[1:]
            while shown:
                shown = shown[os.write(1, shown) :]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
