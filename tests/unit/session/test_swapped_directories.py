"""Other users may write beside the jobs' directories: what they put in the place of one is not used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import add, ended, owned, spec

from gputui.core import steps
from gputui.core.steps import Step


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "precious"
    directory.mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o775)
    yield directory
    steps.watch(None)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_symlink_in_place_of_a_checked_directory_gets_no_log(tmp_path: Path, precious: Path, retries: int) -> None:
    directory, made = tmp_path / "s" / "job_0", []

    def swap(step: Step) -> None:
        if step is Step.DIRECTORY_MADE:
            made.append(step)
            if len(made) > retries:
                directory.rename(tmp_path / "s" / "aside")
                directory.symlink_to(precious)
                (precious / "attempts" / "2").mkdir(parents=True)

    with owned(tmp_path / "s") as owner:
        steps.watch(swap)
        [job] = add(owner, spec("echo told; exit 3", retries=retries))
        assert len(ended(owner, job).attempts) == retries + 1
    assert [path for path in precious.rglob("*") if path.is_file()] == []
    assert "told" in "".join(path.read_text() for path in (tmp_path / "s" / "aside").rglob("*OUT") if path.is_file())
