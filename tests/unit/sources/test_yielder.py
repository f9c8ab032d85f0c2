"""Yielders run in a child that sees no GPU, generate no more than is wanted, and fail with one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import until

from gputui.sources.source import BadInput, Draft
from gputui.sources.yielder import Yielder, draft_of

Begin = Callable[[str], Yielder]


def written(path: Path, text: str) -> Path:
    """Write a file, always with the same time."""
    path.write_text(text)
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    started: list[Yielder] = []

    def made(text: str) -> Yielder:
        path = written(tmp_path / "gen.py", text)
        log = str(tmp_path / "log")
        started.append(
            Yielder(str(path), python=sys.executable, cwd=str(tmp_path), environment=dict(os.environ), log=log)
        )
        return started[-1]

    yield made
    for yielder in started:
        yielder.close()


def everything(yielder: Yielder) -> tuple[list[Draft], str]:
    """Return all items, and how it failed."""
    yielder.allow(1000)
    drafts: list[Draft] = []
    try:
        for batch in yielder.batches():
            drafts += batch
    except BadInput as bad:
        return drafts, str(bad)
    return drafts, ""


def commands(drafts: list[Draft]) -> list[str]:
    return [draft.command for draft in drafts]


def test_any_iterable_of_text_and_mappings_is_accepted(begin: Begin) -> None:
    drafts, trouble = everything(
        begin(
            "class N:\n def item(self): return 2\ndef yielder(): return ['a && b', {'command': 'c', 'gpus': N()}, 42]"
        )
    )
    assert (commands(drafts), trouble) == (["a && b", "c", "42"], "")
    assert drafts[1].settings.gpus == 2


def test_it_sees_no_gpu_and_may_print(begin: Begin, tmp_path: Path) -> None:
    text = "import os\ndef yielder():\n print('hello')\n yield repr(os.environ['CUDA_VISIBLE_DEVICES'])"
    assert commands(everything(begin(text))[0]) == ["''"]
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_file_edited_twice_within_a_second_is_read_as_it_is_now(begin: Begin, tmp_path: Path) -> None:
    """Python compares bytecode with its source by the second and the size."""
    for name in ("a", "b"):
        written(tmp_path / "helper.py", f"name = '{name}'")
        yielder = begin(f"import helper\ndef yielder():\n yield helper.name + '{name}'")
        assert commands(everything(yielder)[0]) == [name * 2]
    assert {path.name for path in tmp_path.iterdir()} == {"gen.py", "helper.py", "log"}


def test_modules_beside_it_can_be_imported_whatever_their_names(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text("name = 'mine'")
    assert commands(everything(begin("import source\ndef yielder():\n yield source.name"))[0]) == ["mine"]


def test_no_more_items_are_generated_than_are_wanted(begin: Begin, tmp_path: Path) -> None:
    text = "def yielder():\n for n in range(99):\n  open('made', 'a').write('x'); yield str(n)"
    yielder = begin(text)
    yielder.allow(2)
    got: list[Draft] = []
    batches = yielder.batches()
    while len(got) < 2:
        got += next(batches)
    assert (tmp_path / "made").read_text() == "xx"
    yielder.allow(1)
    assert commands(next(batches)) == ["2"]
    assert (tmp_path / "made").read_text() == "xxx"


@pytest.mark.parametrize(
    ("text", "before", "message"),
    [
        (
            "def yielder():\n yield 'a'\n raise ValueError('boom')",
            ["a"],
            "gen.py, after 1 item: line 3: ValueError: boom",
        ),
        ("def yelder(): pass", [], "gen.py: it has no function yielder()"),
        ("import nothing_of_the_kind\ndef yielder(): return []", [], "ModuleNotFoundError"),
        ("def yielder(): return 3", [], "gen.py: yielder() returned 3"),
        ("def yielder():\n yield 'a'\n raise SystemExit(3)", ["a"], "it called sys.exit(3)"),
        ("import os\ndef yielder():\n yield 'a'\n os._exit(3)", ["a"], "exited before its yielder finished"),
        (
            "def yielder():\n yield 'a'\n yield ('b', 'c')",
            ["a"],
            ("yield a string, or a mapping with a command and settings"),
        ),
        ("def yielder():\n yield 'a'\n yield {'command': 'b', 'gpsu': 1}", ["a"], "item 2: 'gpsu' is not a setting"),
        ("def yielder():\n yield {'gpus': 1}", [], "item 1: command is missing"),
        ("def yielder():\n yield 'a\\0'", [], "item 1: command contains a NUL byte"),
        ("def yielder():\n yield 'x' * 200000", [], "item 1: command is longer"),
        ("def yielder():\n yield '\\udcff'", [], "item 1: command is not UTF-8"),
    ],
)
def test_a_failure_comes_after_the_items_before_it(begin: Begin, text: str, before: list[str], message: str) -> None:
    drafts, trouble = everything(begin(text))
    assert commands(drafts) == before
    assert message in trouble
    assert "\n" not in trouble


def test_it_ends_when_its_reader_is_gone(begin: Begin, tmp_path: Path) -> None:
    yielder = begin("import time\ndef yielder():\n open('up', 'w'); time.sleep(1000); yield 'a'")
    yielder.allow(1)
    until((tmp_path / "up").exists, "the yielder runs")
    os.close(yielder._ask)
    until(lambda: os.waitid(os.P_PID, yielder.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), "it ended by itself")
    yielder._ask = os.open(os.devnull, os.O_WRONLY)


@given(st.dictionaries(st.sampled_from(["command", "gpus", "env", "after"]) | st.text(), st.none() | st.integers()
       | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text())))  # fmt: skip
def test_any_mapping_is_a_job_or_refused(job: dict[str, object]) -> None:
    with suppress(BadInput):
        draft_of(job, "gen.py", 1)
