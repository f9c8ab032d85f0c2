"""What would be shipped: built, checked, installed into an empty environment, and used there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.terminal import CTRL_C, recorded

import gputui

TOP = Path(gputui.__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def run(*words: str | Path, **settings: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel made of it."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, TOP)
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return sdist, wheel


def test_the_version_is_defined_in_one_place(built: tuple[Path, Path]) -> None:
    assert [path.name.split("-")[1].removesuffix(".tar.gz") for path in built] == [gputui.__version__] * 2
    assert gputui.__version__ not in (TOP / "pyproject.toml").read_text()
    changelog = (TOP / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.M)[1] == gputui.__version__  # type: ignore[index]


def test_both_archives_are_valid_and_complete(built: tuple[Path, Path]) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    with tarfile.open(built[0]) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"} <= packed
    with zipfile.ZipFile(built[1]) as wheel:
        inside = wheel.namelist()
    ours = {str(path.relative_to(TOP)) for path in (TOP / "gputui").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert ours <= set(inside)
    assert {name.split("/")[0] for name in inside} == {"gputui", f"gputui-{gputui.__version__}.dist-info"}


def pythons() -> Iterator[object]:
    """This one, and, with --long, every other that is here."""
    for version in VERSIONS:
        marks = [] if version == OWN else [pytest.mark.long]
        yield pytest.param(version, marks=marks, id=version)


def interpreter(version: str) -> Path:
    if version == OWN:
        return Path(sys.executable)
    directories = [*os.environ["PATH"].split(":"), *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin"))]
    programs = (Path(directory) / f"python{version}" for directory in directories)
    for program in programs:
        if program.exists() and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize("version", pythons())
def test_the_wheel_works_in_an_empty_environment(version: str, built: tuple[Path, Path], tmp_path: Path) -> None:
    run(interpreter(version), "-m", "venv", tmp_path / "venv")
    program = tmp_path / "venv" / "bin" / "gputui"
    run(tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", built[1])
    work = tmp_path / "work"
    work.mkdir()
    (work / "jobs.txt").write_text(
        "".join(f"for i in 1 2 3; do echo epoch=$i val_loss=0.{lr}$i; done # --lr 0.{lr}\n" for lr in (4, 3, 5))
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def use(*words: str) -> str:
        return run(program, *words, cwd=work, env=environment)

    use("run", "--gpus", "cpu:2", "jobs.txt")
    assert "succeeded" in use("ls")
    assert use("--version").split() == ["gputui", gputui.__version__]
    with recorded([str(program), "demo", "--speed", "5"], size=(120, 40)) as terminal:
        terminal.shows("1/8")
        terminal.press(CTRL_C + CTRL_C)
        terminal.status()
