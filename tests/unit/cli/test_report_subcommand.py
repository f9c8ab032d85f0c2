"""`gputui report` in a real browser: it sorts, filters, loads nothing, and what jobs say stays text."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Session
from support.waiting import PATIENCE, until

from gputui.core.slots import DeviceKind
from gputui.gpus.history import DeviceShare, HistoryRecorder, LoadOwner, write_history
from gputui.gpus.sample import DeviceSample, Sample
from gputui.session.session_dir import Paths

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page; what it logged and what it raised is kept."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                answer: dict[str, Any] = told["result"]
                return answer
            self._note(told)

    def open(self, url: str, width: int = 0) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.ask(f"{domain}.enable")
        if width:
            self.ask(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
            )
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while self.value("document.documentElement?.dataset.ready") != "yes":
            assert time.monotonic() < deadline, f"the page is not ready: {self.complaints}"

    def value(self, expression: str) -> Any:
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            more = os.read(self._reading, 1 << 16)
            assert more, "the browser has gone"
            self._received += more
        message, _, self._received = self._received.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        method, params = told.get("method"), told.get("params", {})
        if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(params))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextmanager
def browser(directory: Path) -> Iterator[Page]:
    assert CHROMIUM is not None
    to_browser, from_browser = os.pipe(), os.pipe()

    def pipes() -> None:
        os.dup2(to_browser[0], 3)
        os.dup2(from_browser[1], 4)

    for descriptor in (to_browser[0], from_browser[1]):
        os.set_inheritable(descriptor, True)
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={directory / 'profile'}"],
        pass_fds=(3, 4, to_browser[0], from_browser[1]),
        preexec_fn=pipes,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser[0])
    os.close(from_browser[1])
    try:
        yield Page(from_browser[0], to_browser[1])
    finally:
        process.kill()
        process.wait()
        os.close(to_browser[1])
        os.close(from_browser[0])


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
    assert session.call("report", "-o", str(made)).stdout.strip() == str(made)
    return made


def test_job_output_cannot_break_the_page(page: Path) -> None:
    text = page.read_text()
    assert EVIL not in text
    assert text.lower().count("</script") == 2
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_it_sorts_and_filters_in_a_browser_without_complaint_and_without_a_network(page: Path, tmp_path: Path) -> None:
    ids = "[...document.querySelectorAll('#results tbody tr')].map(row => row.dataset.id)"
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
        assert chromium.value("document.querySelectorAll('.curve').length") == 6, "two metrics of three jobs"
        link = chromium.value("document.querySelector('#results a').href")
        assert Path(link.removeprefix("file://")).exists()
        chromium.value("document.getElementById('theme').click()")
        assert chromium.complaints == []
        assert [url for url in chromium.requests if not url.startswith("file:")] == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_everything_can_be_read_on_a_phone_and_on_a_desk(page: Path, tmp_path: Path, width: int) -> None:
    texts = "[...document.querySelectorAll('svg')].flatMap((drawn, n) => [...drawn.querySelectorAll('text')].map("
    texts += "text => { const at = text.getBoundingClientRect(); return {n, text: text.textContent, left: at.left, "
    texts += "right: at.right, top: at.top, bottom: at.bottom}; }))"
    with browser(tmp_path) as chromium:
        chromium.open(page.as_uri(), width)
        chromium.ask("Emulation.setLocaleOverride", locale="en-US")
        until(lambda: chromium.value("innerWidth") == width, "it is as wide")
        drawn = "Math.max(...[...document.querySelectorAll('svg[role=img]')].map(each => each.clientWidth))"
        until(lambda: chromium.value(drawn) > min(width, 1600) - 60, "it is drawn")
        assert chromium.value("document.documentElement.scrollWidth") <= width, "nothing hangs over"
        found = chromium.value(texts)
        assert len(found) > 10
        for each in found:
            assert each["bottom"] - each["top"] >= 10, f"{each['text']} is too small to read"
            assert 0 <= each["left"] <= each["right"] <= width
        for one, other in itertools.combinations(found, 2):
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            apart |= one["bottom"] <= other["top"] + 3 or other["bottom"] <= one["top"] + 3
            assert apart or one["n"] != other["n"], f"{one['text']} lies over {other['text']}"
        rows = "[...document.querySelectorAll('#results tr')].map(row => row.clientHeight)"
        assert max(chromium.value(rows)) < (60 if width < 600 else 40), "one line for each job, two on a phone"
        table = "(() => { const box = document.querySelector('.wide'); return box.scrollWidth - box.clientWidth; })()"
        assert chromium.value(table) <= 0, "the table does not scroll sideways"
        shown = chromium.value("document.body.innerText")
        assert not re.search(r"\d [AP]M\b", shown), "24 hours everywhere"
        ticks = [float(each["text"]) for each in found if re.fullmatch(r"-?[\d.]+", each["text"])]
        assert {1.0, 1.5, 2.0, 3.0} & set(ticks)
        assert all(abs(tick * 40 - round(tick * 40)) < 1e-9 for tick in ticks), f"not round: {ticks}"
        assert chromium.complaints == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_timeline_explains_how_attempts_ended(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    page.write_text(text.replace('"end":"succeeded"', '"end":"killed"', 1))
    fills = "[...new Set([...document.querySelectorAll('rect')].map(box => box.getAttribute('fill')))]"
    with browser(tmp_path) as chromium:
        chromium.open(page.as_uri())
        legend = chromium.value("[...document.querySelectorAll('#ends span')].map(each => each.textContent.trim())")
        assert legend == ["ok", "failed", "killed"]
        assert {"var(--failed)", "var(--killed)"} < set(chromium.value(fills))
        titles = chromium.value("[...document.querySelectorAll('rect title')].map(each => each.textContent)")
        assert sum(title.endswith("  killed") for title in titles) == 1
        assert chromium.complaints == []


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of twelve jobs: three learning rates, two batch sizes and two seeds."""
    directory = tmp_path_factory.mktemp("sweep")
    session = Session(directory)
    (directory / "train.py").write_text(
        "import sys\nlr, bs, seed = map(float, sys.argv[2::2])\nfor epoch in range(1, 5):\n"
        "    print(f'epoch {epoch}/4 val_loss: {lr + bs / 640 + seed / 100 + 1 / epoch:.4f} acc {20 * epoch}%')\n"
    )
    grid = itertools.product((0.1, 0.2, 0.4), (32, 64), (0, 1))
    jobs = [f"python3 train.py --lr {lr} --bs {bs} --seed {seed}" for lr, bs, seed in grid]
    session.run(session.write(*jobs), gpus="sim:2")
    made = directory / "page.html"
    session.call("report", "-o", str(made))
    return made


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [400, 1280])
def test_the_answer_is_followed_by_charts_that_respond(sweep: Path, tmp_path: Path, width: int) -> None:
    with browser(tmp_path) as chromium:
        chromium.open(sweep.as_uri(), width)
        answer = chromium.value("document.querySelector('.answer').innerText")
        assert "Best: #0" in answer
        assert "python3 train.py --lr 0.1 --bs 32 --seed 0" in answer
        assert "lr=0.1 is 0.3000 better than 0.4 (medians, n = 4 and 4)" in answer

        cells = "[...document.querySelectorAll('.heat td')].map(cell => cell.innerText.replace(/\\s+/g, ' '))"
        assert chromium.value(cells)[-2:] == ["★0.4050 n 2", "0.4550 n 2"]
        chromium.value("document.querySelector('.heat td button').click()")
        chosen = chromium.value("document.querySelector('.sweep pre').textContent")
        assert shlex.split(chosen)[:3] == ["gputui", "sweep", "python3 train.py --lr {lr} --bs {bs} --seed 0"]

        rows = "document.querySelectorAll('#results tbody tr').length"
        assert chromium.value(rows) == 10
        chromium.value("document.getElementById('more').click()")
        assert chromium.value(rows) == 12
        if width < 600:
            cells = "[...document.querySelectorAll('#results tbody tr')].map(row => row.children.length)"
            assert set(chromium.value(cells)) == {2}, "a job is two lines beside its result, not a row of a wide table"
            sort = "(() => { const box = document.querySelector('[aria-label=\"sort by\"]'); box.value = '{}'; "
            chromium.value(sort.replace("{}", "0") + "box.dispatchEvent(new Event('change')); })()")
            assert chromium.value("document.querySelector('#results tbody tr').innerText").startswith("★ #0 lr=0.1")

        at = chromium.value(
            "(() => { const chart = document.querySelector('.chart'); chart.scrollIntoView(); "
            "const at = chart.getBoundingClientRect(); return [at.left + at.width / 2 - 40, at.top + 100]; })()"
        )
        chromium.ask("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
        place = ".legend" if width < 600 else ".box:not([hidden])"
        shown = chromium.value(f"[...document.querySelectorAll('{place} .key b')].map(each => each.textContent)")
        assert len(shown) == 12, "two metrics of six jobs"
        assert shown[0] == "0.6500", "the best job at epoch 2"
        curves = "document.querySelectorAll('.curve').length"
        before = chromium.value(curves)
        chromium.value("document.querySelector('#results tr[data-curve=true]').click()")
        assert chromium.value(curves) == before - 2
        assert chromium.complaints == []


def _contents(page: str) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    return contents


def test_cards_are_called_by_their_number_and_the_load_of_others_is_theirs(page: Path, tmp_path: Path) -> None:
    root = Session(tmp_path).root
    cards = [
        DeviceSample(index=number, uuid=f"GPU-1234567{number}-89ab", name="NVIDIA RTX 3090", utilization=80)
        for number in range(2)
    ]
    shares = {cards[0].key: DeviceShare(LoadOwner.OURS), cards[1].key: DeviceShare(LoadOwner.OTHERS)}
    began = _contents(page.read_text())["facts"]["began"]
    recorder = HistoryRecorder()
    for second in range(3):
        recorder.observe(Sample(kind=DeviceKind.GPU, taken=began + second, devices=tuple(cards)), shares)
    write_history(Paths(str(root)).history, recorder.frozen())
    contents = _contents(_report(root, "-").stdout)
    assert contents["names"] == {"GPU 0": "RTX 3090", "GPU 1": "RTX 3090"}
    tracks = contents["load"]["tracks"]
    assert [track["label"] for track in tracks] == ["GPU 0", "GPU 1"]
    assert [any(track["others"]) for track in tracks] == [False, True]
    if CHROMIUM is not None:
        _report(root, str(page))
        with browser(tmp_path) as chromium:
            chromium.open(page.as_uri(), 1280)
            assert chromium.value("document.querySelectorAll('path.ours').length") == 1
            assert chromium.value("document.querySelectorAll('path.others').length") == 1
            texts = chromium.value("[...document.querySelectorAll('svg text')].map(text => text.textContent)")
            assert texts.count("RTX 3090") == 2


def test_without_a_gpu_nothing_is_called_one(session: Session) -> None:
    session.run(session.write("echo loss=0.5", "echo loss=0.4"), gpus="cpu:2")
    for subcommand in ("summary", "results", "report -o -"):
        done = session.call(*subcommand.split())
        text = (
            done.stdout.partition("<noscript>")[2].partition("<script>")[0] if "report" in subcommand else done.stdout
        )
        assert text
        assert "GPU" not in text.replace("GPUTUI", "").replace('"gpu', ""), subcommand
    page = _contents(done.stdout)
    assert {bar["slot"] for bar in page["bars"]} == {"slot 0", "slot 1"}
    assert page["facts"]["ran_on"] == "2 CPU slots"


def test_without_a_script_the_page_still_names_its_session_and_has_the_results(page: Path, tmp_path: Path) -> None:
    static = page.read_text().partition("<noscript>")[2].partition("</noscript>")[0]
    assert "3 ok" in static
    assert "<td>0.4333</td>" in static
    assert f"<title>gputui · {Session(tmp_path).root.name}</title>" in page.read_text()
    usual = tmp_path / "my-sweep" / "gputui_run"
    usual.parent.mkdir()
    Session(tmp_path).root.rename(usual)
    assert "<title>gputui · my-sweep</title>" in _report(usual, "-").stdout


def test_a_directory_gets_a_page_in_it_and_one_that_is_not_there_is_named(page: Path, tmp_path: Path) -> None:
    for written in (f"{tmp_path}/", str(tmp_path)):
        done = _report(Session(tmp_path).root, written)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path}/report.html\n")
    assert "<html" in (tmp_path / "report.html").read_text()
    refused = _report(Session(tmp_path).root, f"{tmp_path}/nowhere/")
    assert refused.returncode == 1
    assert f"no such directory: {tmp_path}/nowhere/; create it" in refused.stderr


def _report(root: Path, page: str) -> subprocess.CompletedProcess[str]:
    words = [*GPUTUI, "report", "--session", str(root), "-o", page]
    return subprocess.run(words, capture_output=True, text=True, check=False)
