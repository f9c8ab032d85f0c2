"""`gputui run` takes every kind of input: what is in the file is what is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest
from support.sessions import Session, said
from support.waiting import until

from gputui.cli.run.jobs import CHUNK, MOST_WAITING
from gputui.session.client import Client
from gputui.session.feeds import AHEAD
from gputui.session.messages import StatusQuestion


def written(session: Session, name: str, text: str) -> Path:
    path = session.directory / name
    path.write_text(text)
    return path


def test_a_spec_is_run_in_its_order_with_its_settings(session: Session) -> None:
    spec = written(
        session,
        "jobs.toml",
        '[defaults]\nproject = "p"\nenv = { WHO = "me" }\n'
        "[[job]]\nname = 'late'\nafter = ['early']\ncommand = 'echo late $WHO >>order'\n"
        "[[job]]\nname = 'early'\ncommand = '''\ncat <<END >>order\nearly $WHO\nEND\n'''\n"
        "[matrix]\ncommand = 'echo {lr} >{lr}.out'\nparameters = { lr = [1e-3, 0.1] }\n",
    )
    done = session.run(spec, "--job-dir", "{project}/{name}/{id}")
    assert done.returncode == 0, done.stderr
    assert (session.directory / "order").read_text() == "early me\nlate me\n"
    assert (session.directory / "1e-3.out").read_text() == "1e-3\n"
    assert (session.root / "p/late/0/SUCCESS").exists()
    assert session.jobs()[2].spec.params == {"lr": "1e-3"}


def test_a_changed_spec_is_refused_whole(session: Session) -> None:
    spec = written(session, "jobs.yaml", "job:\n- command: echo a\n- command: echo b\n  gpsu: 1\n")
    done = session.run(spec)
    assert done.returncode == 2
    assert said(done) == f"{spec}, line 4: 'gpsu' is not a setting; did you mean gpus?"
    assert not session.root.exists()


def test_a_peasy_batch_writes_both_streams_to_its_outfile(session: Session) -> None:
    batch = written(session, "b.esy", "one;;\nout1.log;;\necho o; echo e >&2;;;\n\ntwo;; out2.log;; echo $((1+1));;;\n")
    assert session.run(batch).returncode == 0
    assert (session.directory / "out1.log").read_text() == "o\ne\n"
    assert (session.directory / "out2.log").read_text() == "2\n"
    assert [job.name for job in session.jobs()] == ["one", "two"]
    again = session.run(batch)
    assert again.returncode == 0
    assert "0 new, 2 done (kept)" in again.stderr


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [("touch out2.log", "out2.log already exists; nothing was added"), ("true", "directory of outfile")],
)
def test_an_outfile_that_cannot_be_written_refuses_the_batch(session: Session, prepare: str, sentence: str) -> None:
    outfile = "out2.log" if prepare != "true" else "nowhere/out2.log"
    batch = written(session, "b.peasy", f"one;; out1.log;; true;;; two;; {outfile};; true;;;")
    subprocess.run(prepare, shell=True, cwd=session.directory, check=True)
    done = session.run(batch)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert session.jobs() == []
    assert not (session.directory / "out1.log").exists()


def test_a_task_is_called_with_name_command_directory_and_gpus(session: Session) -> None:
    written(session, "mine.py", "def do(*told):\n    print(*told, sep='|')\n    return 3\n")
    jobs = written(session, "jobs.txt", "#: task=mine:do name=a\nwhatever > that ' is\n")
    assert session.run(jobs, gpus="5").returncode == 1
    assert session.output(0) == f"a|whatever > that ' is|{session.root}/job_0|5\n"
    assert session.last(0).exit_code == 3


def test_a_wrapped_command_runs_within_its_wrapper(session: Session) -> None:
    jobs = written(session, "jobs.txt", "#: wrap='env IN=box'\necho \"$IN\" | tr a-z A-Z\n")
    assert session.run(jobs).returncode == 0
    assert session.output(0) == "BOX\n"


def test_hooks_run_at_a_job_s_start_and_at_its_end(session: Session) -> None:
    seen = session.directory / "seen"
    config = session.directory / "config" / "gputui"
    config.mkdir(parents=True)
    hook = f"'echo $GPUTUI_EVENT $GPUTUI_JOB_NAME $GPUTUI_JOB_GPUS $GPUTUI_EXIT_CODE >>{seen}'"
    (config / "config.toml").write_text(f"[hooks]\non_job_start = {hook}\non_job_end = {hook}\n")
    jobs = session.write("#: name=slow", "sleep 0.3; exit 4", "#: name=quick", "true")
    session.run(jobs, gpus="7", env={"XDG_CONFIG_HOME": str(config.parent)})
    wanted = {"job_start slow 7", "job_end slow 7 4", "job_start quick 7", "job_end quick 7 0"}
    until(lambda: seen.exists() and set(seen.read_text().splitlines()) == wanted, f"the hooks were run for {wanted}")


def test_a_project_is_a_column_and_a_filter(session: Session) -> None:
    assert session.run(session.write("echo a", name="a.txt"), "--project", "alpha").returncode == 0
    assert session.run(session.write("echo b", name="b.txt"), "--project", "beta").returncode == 0
    both, one = (session.call("ls", *words).stdout for words in ((), ("--project", "beta")))
    assert " group " in both
    assert "alpha" in both
    assert "echo b" in one
    assert "echo a" not in one


def test_an_endless_producer_is_held_back_and_memory_stays_bounded(session: Session) -> None:
    producer = subprocess.Popen(["yes", "sleep 1000"], stdout=subprocess.PIPE)
    assert producer.stdout is not None
    with session.running(gpus="0", stdin=producer.stdout.fileno()) as run:
        producer.stdout.close()
        until(lambda: session.database.exists() and waiting(session) > MOST_WAITING, "as many wait as may wait")
        until(lambda: psutil.Process(producer.pid).status() == psutil.STATUS_SLEEPING, "the producer is held back")
        most = max(waiting(session) for _ in range(50))
        assert most <= MOST_WAITING + 2 * CHUNK // len("sleep 1000\n")
        assert psutil.Process(run.pid).memory_info().rss < 300 << 20
    producer.kill()
    producer.wait()


def test_an_endless_yielder_is_asked_for_little_more_than_can_run(session: Session) -> None:
    made = session.directory / "made"
    gen = written(
        session,
        "gen.py",
        "import itertools\n"
        "def yielder():\n"
        "    for n in itertools.count():\n"
        f"        open({str(made)!r}, 'a').write('x')\n"
        "        yield f'sleep 1000; echo {n}'\n",
    )
    with session.running(gen):
        until(lambda: session.database.exists() and waiting(session) == AHEAD, "as many wait as may wait")
        asked = [made.stat().st_size for _ in range(50) if waiting(session)]
        assert max(asked) <= AHEAD + 2


def waiting(session: Session) -> int:
    return Client(str(session.root)).ask(StatusQuestion()).waiting


BATCH = "one;;\n1.log;;\necho one;;;\ntwo;; 2.log;; echo two;;;\n"


def test_a_batch_on_standard_input_is_known_by_its_file_or_by_the_format_named(session: Session) -> None:
    batch = written(session, "b.esy", BATCH)
    with batch.open() as file:
        assert session.run(stdin=file.fileno()).returncode == 0
    assert (session.directory / "2.log").read_text() == "two\n"
    named = BATCH.replace(".log", ".txt")
    assert session.run("--format", "peasy", given=named).returncode == 0
    assert (session.directory / "2.txt").read_text() == "two\n"
    other = written(session, "batch.text", BATCH.replace(".log", ".more").replace("echo", "printf"))
    assert session.run("--format", "peasy", other).returncode == 0
    assert (session.directory / "1.more").read_text() == "one"


def test_a_batch_taken_for_commands_is_refused_with_the_way_out(session: Session) -> None:
    done = session.run(given=BATCH)
    assert done.returncode == 2
    assert "--format peasy" in done.stderr
    assert session.jobs() == []
    assert "--format peasy" in said(session.run(written(session, "b.txt", BATCH)))


def test_gpu_is_another_word_for_gpus(session: Session) -> None:
    assert session.run(session.write("echo $CUDA_VISIBLE_DEVICES"), "--gpu", "3", "4", gpus=None).returncode == 0
    assert session.output(0) in ("3\n", "4\n")


def test_the_output_of_a_yielder_is_shown_and_empty_commands_are_skipped(session: Session) -> None:
    gen = written(
        session,
        "gen.py",
        "def yielder():\n    print('thinking\\x1b[2J')\n    yield ''\n    yield 'echo 1'\n    yield None\n"
        "    yield '  '\n    yield 'echo 2'\n    print('done')\n",
    )
    done = session.run(gen)
    assert done.returncode == 0, done.stderr
    assert [session.output(0), session.output(1)] == ["1\n", "2\n"]
    assert len(session.jobs()) == 2
    lines = done.stdout.splitlines()
    assert "thinking" in lines
    assert "done" in lines


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "gen.py: it has no function yielder()"),
        ("yielder = ['true']\n", "gen.py: it has no function yielder()"),
        ("def yielder(): return 3\n", "gen.py: yielder() returned 3; it must yield commands"),
    ],
)
def test_a_file_without_a_yielder_is_refused_in_a_sentence(session: Session, text: str, sentence: str) -> None:
    (session.directory / "gen.py").write_text(text)
    done = session.run("--job-yielder", "gen.py")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "its jobs continue" not in done.stderr
