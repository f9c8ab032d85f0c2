"""An ordinary user beside root: a folder of their own, programs run as them, and set-uid programs they may call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NUMBER = 65534
AS_THEM = (
    "setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups",
    # The Python of these tests may be in root's own home; reading all there is does not let one signal or write.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


class SecondUser:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GPUTUI_"))},
            "HOME": str(folder),
        }

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*AS_THEM, *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def set_uid(self, program: str) -> Path:
        """A copy that runs as root, whoever calls it."""
        found = shutil.which(program)
        assert found is not None
        copy = self.folder / f"root-{program}"
        shutil.copyfile(found, copy)
        copy.chmod(0o4755)
        return copy


@contextmanager
def second_user() -> Iterator[SecondUser]:
    """Skips the test where there can be none."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else too")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    # Not below pytest's own folder, which nobody else may enter.
    folder = Path(tempfile.mkdtemp(prefix="gputui-"))
    try:
        os.chown(folder, NUMBER, NUMBER)
        user = SecondUser(folder)
        if user.run(sys.executable, "-c", "import gputui.session.owner.owner").returncode != 0:
            pytest.skip("the Python of these tests cannot be run by another user")
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip("programs cannot be set-uid here")
        yield user
    finally:
        shutil.rmtree(folder, ignore_errors=True)
