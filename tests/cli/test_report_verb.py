"""`gputui report` in a real browser: it sorts, filters, loads nothing, and what jobs say stays text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.browser import CHROMIUM, browser
from support.sessions import GPUTUI, Session

EVIL = "</script><img src=x onerror=alert(1)>"
TRAIN = f"""\
import sys
lr = float(sys.argv[2])
if lr > 1:
    raise ValueError({EVIL!r})
for epoch in range(1, 4):
    print(f"epoch {{epoch}}/3 val_loss: {{lr + 1 / epoch:.4f}} acc {{10 * epoch}}%")
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    session = Session(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    session.run(session.write(*(f"python3 train.py --lr {lr}" for lr in (0.5, 0.1, 0.9, 2.0))), gpus="sim:2")
    made = tmp_path / "page.html"
    done = subprocess.run(
        [*GPUTUI, "report", "--session", str(session.root), "-o", str(made)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(made)
    return made


def test_a_page_cannot_be_broken_by_what_jobs_say(page: Path) -> None:
    text = page.read_text()
    assert EVIL not in text
    assert text.lower().count("</script") == 2
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_it_sorts_and_filters_in_a_browser_without_complaint_and_without_a_network(page: Path, tmp_path: Path) -> None:
    ids = "[...document.querySelectorAll('#results tbody tr')].map(row => row.children[0].textContent)"
    click = "[...document.querySelectorAll('#results th')].find(head => head.textContent === '{}').click()"
    typed = "(() => {{ const box = document.getElementById('filter'); box.value = '{}'; "
    typed += "box.dispatchEvent(new Event('input')); }})()"
    with browser(tmp_path) as chromium:
        chromium.open(page.as_uri())
        assert chromium.value(ids) == ["1", "0", "2", "3"], "the best first, the failed one last"
        chromium.value(click.format("lr"))
        assert chromium.value(ids) == ["1", "0", "2", "3"]
        chromium.value(click.format("lr"))
        assert chromium.value(ids) == ["3", "2", "0", "1"]
        chromium.value(typed.format("lr=0.9"))
        assert chromium.value(ids) == ["2"]
        chromium.value(typed.format("!succeeded"))
        assert chromium.value(ids) == ["3"]
        assert chromium.value("document.querySelectorAll('img').length") == 0
        assert EVIL in chromium.value("document.querySelector('.failure code').textContent")
        assert chromium.value("document.querySelectorAll('svg polyline').length") == 3, "a curve for each that has one"
        link = chromium.value("document.querySelector('#results a').href")
        assert Path(link.removeprefix("file://")).exists()
        chromium.value("document.getElementById('theme').click()")
        assert chromium.complaints == []
        assert [url for url in chromium.requests if not url.startswith("file:")] == []


def test_without_a_script_the_page_still_names_its_session_and_has_the_results(page: Path, tmp_path: Path) -> None:
    static = page.read_text().partition("<noscript>")[2].partition("</noscript>")[0]
    assert "3 ok" in static
    assert "<td>0.4333</td>" in static
    assert f"<title>gputui · {Session(tmp_path).root.name}</title>" in page.read_text()
    usual = tmp_path / "my-sweep" / "gputui_run"
    usual.parent.mkdir()
    Session(tmp_path).root.rename(usual)
    assert "<title>gputui · my-sweep</title>" in _report(usual, "-").stdout


def test_a_folder_gets_a_page_in_it_and_one_that_is_not_there_is_named(page: Path, tmp_path: Path) -> None:
    for written in (f"{tmp_path}/", str(tmp_path)):
        done = _report(Session(tmp_path).root, written)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path}/report.html\n")
    assert "<html" in (tmp_path / "report.html").read_text()
    refused = _report(Session(tmp_path).root, f"{tmp_path}/nowhere/")
    assert refused.returncode == 1
    assert f"there is no folder {tmp_path}/nowhere/; make it" in refused.stderr


def _report(root: Path, page: str) -> subprocess.CompletedProcess[str]:
    words = [*GPUTUI, "report", "--session", str(root), "-o", page]
    return subprocess.run(words, capture_output=True, text=True, check=False)
