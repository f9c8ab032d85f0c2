"""Others may write beside the jobs' folders: what they put in a folder's place just before a job starts is not used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec

from gputui.core import steps
from gputui.core.steps import Step


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "precious"
    folder.mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o775)
    yield folder
    steps.watch(None)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_link_in_the_place_of_a_folder_that_was_just_looked_at_gets_no_log(
    tmp_path: Path, precious: Path, retries: int
) -> None:
    folder, made = tmp_path / "s" / "job_0", []

    def swap(step: Step) -> None:
        if step is Step.FOLDER_MADE:
            made.append(step)
            if len(made) > retries:
                folder.rename(tmp_path / "s" / "aside")
                folder.symlink_to(precious)
                (precious / "attempts" / "2").mkdir(parents=True)

    with owned(tmp_path / "s") as owner:
        steps.watch(swap)
        [job] = add(owner, spec("echo told; exit 3", retries=retries))
        assert len(ended(owner, job).attempts) == retries + 1
    assert [path for path in precious.rglob("*") if path.is_file()] == []
    assert "told" in "".join(path.read_text() for path in (tmp_path / "s" / "aside").rglob("*OUT") if path.is_file())
