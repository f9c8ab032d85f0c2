"""Causes are distinguished from consequences such as victims, launchers and survived tracebacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.core.job import CrashKind
from gputui.logs.crashes.lines import cleaned
from gputui.logs.crashes.signature import crash_of, job_crash
from gputui.logs.crashes.tracebacks import above_stack

LACKS_A_FILE = """[rank2]: Traceback (most recent call last):
[rank2]:   File "/a/train.py", line 40, in open_shard
[rank2]:     return open(path, "rb")
[rank2]: FileNotFoundError: [Errno 2] No such file or directory: '/data/part-00031.tar'
"""
VICTIM = """[rank{0}]: Traceback (most recent call last):
[rank{0}]:   File "/a/train.py", line 180, in main
[rank{0}]:     loss.backward()
[rank{0}]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.12.0.7]:51342
"""
LAUNCHER = """Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 4711)
  traceback : {trace}
============================================================
"""
CAUGHT = """Traceback (most recent call last):
  File "/a/optim.py", line 4, in <module>
    import apex
ModuleNotFoundError: No module named 'apex'
"""
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/part-00031.tar'"


def shown(log: str, code: int = 1) -> str:
    return crash_of(log.encode(), code).message


def test_the_rank_that_lacks_a_file_is_named_not_those_it_left_behind() -> None:
    launcher = LAUNCHER.format(rank=2, code=1, trace="To enable traceback see: https://x")
    assert shown(LACKS_A_FILE + VICTIM.format(0) + VICTIM.format(1) + launcher) == MISSING
    assert shown(VICTIM.format(0) + LACKS_A_FILE + VICTIM.format(1) + launcher) == MISSING


def test_of_ranks_with_causes_of_their_own_the_one_that_failed_first_is_named() -> None:
    other = "[rank0]: Traceback (most recent call last):\n[rank0]: KeyError: 'late'\n"
    assert shown(LACKS_A_FILE + other + LAUNCHER.format(rank=2, code=1, trace="none")) == MISSING
    assert shown(other + LACKS_A_FILE + LAUNCHER.format(rank=0, code=1, trace="none")) == "KeyError: 'late'"


def test_victims_are_shown_when_nobody_says_more() -> None:
    crash = crash_of((VICTIM.format(0) + VICTIM.format(1)).encode(), 1)
    assert "Connection closed by peer" in crash.message
    assert crash.kind is CrashKind.NCCL


@pytest.mark.parametrize(("code", "name"), [(9, "SIGKILL"), (11, "SIGSEGV")])
def test_a_rank_that_died_of_a_signal_is_the_cause(code: int, name: str) -> None:
    told = f"Signal {code} ({name}) received by PID 4711"
    crash = crash_of(LAUNCHER.format(rank=1, code=-code, trace=told).encode(), 1)
    assert (crash.message, crash.kind) == (told, CrashKind.SIGNAL)


def test_a_cause_far_above_many_victims_is_found(tmp_path: Path) -> None:
    frames = '[rank0]:   File "/env/module.py", line 1736, in call\n' * 100
    victims = "".join(VICTIM.format(rank).replace("\n", "\n" + frames, 1) for rank in range(8))
    log = LACKS_A_FILE + victims + LAUNCHER.format(rank=2, code=1, trace="none")
    assert 16384 < len(log) < 65536
    (tmp_path / "job.ERR").write_text(log)
    assert job_crash(str(tmp_path / "job.OUT"), str(tmp_path / "job.ERR"), 1).message == MISSING


@pytest.mark.parametrize("more", ["epoch 7 step 900 loss 0.41\n", "[I] retrying without it\n", "Epoch 3/90 acc 0.7\n"])
def test_a_trace_after_which_the_work_went_on_is_no_cause(more: str) -> None:
    assert shown(CAUGHT + more) == "exit code 1"
    assert shown(CAUGHT + more + CAUGHT.replace("apex", "timm")) == "ModuleNotFoundError: No module named 'timm'"


def test_last_words_with_a_reason_of_their_own_tell_that_a_trace_was_survived() -> None:
    words = "validation accuracy 0.091 is below the floor of 0.5, giving up"
    assert shown(f"{CAUGHT}{words}\n") == words
    assert shown(f"{CAUGHT}training failed, exiting\n") == "ModuleNotFoundError: No module named 'apex'"


def test_notes_and_lines_of_a_message_that_look_like_exceptions_are_not_the_cause() -> None:
    trace = CAUGHT.replace(
        "ModuleNotFoundError: No module named 'apex'", "RuntimeError: nvcc failed\nTypeError: not really"
    )
    assert shown(f"{trace}while building kernel 3\n") == "RuntimeError: nvcc failed"


def test_a_wrapper_without_words_gives_way_to_its_cause() -> None:
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    wrapper = CAUGHT.replace("ModuleNotFoundError: No module named 'apex'", "RuntimeError")
    assert shown(CAUGHT + link + wrapper) == "ModuleNotFoundError: No module named 'apex'"


def test_a_bare_assertion_is_known_by_what_it_asserts() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 4, in f\n    assert 0 < lr < 1\nAssertionError\n'
    assert shown(trace) == "AssertionError: assert 0 < lr < 1"


def test_a_complaint_after_which_the_work_went_on_is_no_cause() -> None:
    complaint = "cp: cannot stat 'x': No such file or directory\n"
    assert shown(f"epoch 1 step 900 loss 0.41\n{complaint}") == complaint.strip()
    assert shown(f"{complaint}epoch 7 step 900 loss 0.41\n") == "exit code 1"


def test_what_trackers_sum_up_after_a_crash_is_not_taken_for_work() -> None:
    assert shown(f"{CAUGHT}wandb: Run summary:\nwandb:   epoch 3\n") == "ModuleNotFoundError: No module named 'apex'"


LUA = (
    "lua: train.lua:12: attempt to index a nil value (global 'net')\nstack traceback:\n\ttrain.lua:12: in main chunk\n"
)
RUBY = "train.rb:12:in `main': undefined method `fit' (NoMethodError)\n\tfrom train.rb:31:in `<main>'\n"
ELIXIR = "** (ArgumentError) axis 3 out of bounds\n    (nx 0.7.0) lib/nx/shape.ex:11: f/4\n    train.exs:12: (file)\n"
RULE = "-" * 74
SLOTS = f"{RULE}\nThere are not enough slots available in the system\nto satisfy the 16 that were requested\n\n{RULE}\n"


@pytest.mark.parametrize("log", [LUA, RUBY, ELIXIR], ids=["lua", "ruby", "elixir"])
def test_the_line_above_the_frames_is_the_message(log: str) -> None:
    assert crash_of(f"loading data\n{log}".encode(), 1).message == log.partition("\n")[0]


def test_frames_without_a_line_above_them_say_nothing() -> None:
    assert above_stack(cleaned(b"stack traceback:\n\t[C]: in ?\n")) is None


def test_a_notice_between_rules_is_read_from_its_beginning() -> None:
    assert crash_of(SLOTS.encode(), 1).message.startswith("There are not enough slots available")


def test_refused_options_in_a_box_or_above_the_usage_are_wrong_usage() -> None:
    box = "╭─ Unrecognized options ─────╮\n│ Unrecognized options: --lrr │\n╰────────────────────────────╯\n"
    for log in (box, "error: unexpected argument '--lrr' found\n\nUsage: train --lr <LR>\n"):
        assert crash_of(log.encode(), 2).kind is CrashKind.USAGE
