"""Errors get a signature, and the same error gets the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.core import operations
from support.waiting import never_hanging

from gputui.core.job import CrashKind
from gputui.logs.crashes.signature import crash_of, job_crash, signal_of


def signature(tail: bytes, code: int | None) -> str:
    return crash_of(tail, code).signature


TRACEBACK = """Traceback (most recent call last):
  File "/home/a/train.py", line 3, in <module>
    import timm
"""

CHAINED = """Traceback (most recent call last):
  File "/home/a/train.py", line 3, in <module>
    {}['lr']
    ~~^^^^^^
KeyError: 'lr'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/a/train.py", line 5, in <module>
    raise ValueError("no learning rate")
ValueError: no learning rate
"""

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/home/a/x.py", line 1, in <module>
  |     raise ExceptionGroup("eg", [ValueError("bad seed")])
  | ExceptionGroup: eg (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/a/x.py", line 9, in seed
    |     raise ValueError("bad seed")
    | ValueError: bad seed
    +------------------------------------
"""

DATA_LOADER = """Traceback (most recent call last):
  File "train.py", line 40, in <module>
    for batch in loader:
RuntimeError: Caught FileNotFoundError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/env/torch/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)
FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'

"""

TORCHRUN = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/a/train.py", line 12, in <module>
[rank1]:     main()
[rank1]: KeyError: 'optimizer'
E1116 10:11:12.345000 4121 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1)
Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
"""

RICH = """╭──────────── Traceback (most recent call last) ────────────╮
│ /home/a/train.py:5 in <module>                            │
│ ❱ 5 raise ValueError("bad")                               │
╰───────────────────────────────────────────────────────────╯
ValueError: bad
"""

AT_SHUTDOWN = """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    run()
RuntimeError: boom
Exception ignored in: <function Pool.__del__ at 0x7f1234567890>
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 268, in __del__
    self._change_notifier.put(None)
ImportError: sys.meta_path is None, Python is likely shutting down
wandb: 🚀 View run at https://wandb.ai/a/b/runs/x1
"""

SYNTAX_ERROR = """  File "/home/a/train.py", line 4
    def f(
         ^
SyntaxError: '(' was never closed
"""

SPAWN = """Traceback (most recent call last):
  File "<string>", line 1, in <module>
RuntimeError:
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.
"""

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39"
    " GiB of which 1.06 GiB is free. Process 4121 has 38.3 GiB memory in use."
)

NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691,"
    " unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3"
)

BUS = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory"

CASES = [
    # Python
    (TRACEBACK + "ModuleNotFoundError: No module named 'timm'", 1, "ModuleNotFoundError: No module named 'timm'"),
    (CHAINED, 1, "ValueError: no learning rate"),
    (GROUP, 1, "ValueError: bad seed"),
    (DATA_LOADER, 1, "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"),
    (TORCHRUN, 1, "KeyError: 'optimizer'"),
    (RICH, 1, "ValueError: bad"),
    (AT_SHUTDOWN, 1, "RuntimeError: boom"),
    (SYNTAX_ERROR, 1, "SyntaxError: '(' was never closed"),
    (SPAWN, 1, "RuntimeError: An attempt has been made to start a new process before the"),
    (TRACEBACK + "AssertionError", 1, "AssertionError"),
    (TRACEBACK + "KeyError: 'layer1.0.weight'", 1, "KeyError: 'layer1.0.weight'"),
    (TRACEBACK + "mypkg.errors.Diverged: loss is nan", 1, "mypkg.errors.Diverged: loss is nan"),
    (TRACEBACK + "socket.gaierror: [Errno -2] Name or service not known", 1,
     "socket.gaierror: [Errno -2] Name or service not known"),
    (TRACEBACK + "__main__.main.<locals>.Odd: x", 1, "__main__.main.<locals>.Odd: x"),
    (TRACEBACK + "ValueError: first line\nsecond line\nthird: line", 1, "ValueError: first line"),
    (TRACEBACK + "OSError: [Errno 28] No space left on device", 1, "OSError: [Errno 28] No space left on device"),
    (TRACEBACK + "\x1b[31mValueError\x1b[0m: red", 1, "ValueError: red"),
    ("  0%|    | 0/9 [00:00<?, ?it/s]\r 45%|██  | 4/9 [00:01<00:01]" + TRACEBACK + "ValueError: x\r\n", 1,
     "ValueError: x"),
    (TRACEBACK + "RuntimeError: x\nwandb: ERROR failed to sync\n", 1, "RuntimeError: x"),
    ("  10%\r  20%\rKeyError: 'a'\r\n", 1, "KeyError: 'a'"),
    (TRACEBACK + "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): \"fc\".", 1,
     "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): \"fc\"."),
    (TRACEBACK, 1, "exit code 1"),
    ("Traceback (most recent call last):\n  File \"x\"\nValueError: a\n" + TRACEBACK, 1, "ValueError: a"),
    ("pydantic_core._pydantic_core.ValidationError: 2 validation errors for Config", 1,
     "pydantic_core._pydantic_core.ValidationError: N validation errors for Config"),
    ("subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.", 1,
     "subprocess.CalledProcessError: Command '['x']' returned non-zero exit status N."),
    ("/usr/bin/python3: No module named torchh", 1, "no module named: torchh"),
    ("python: can't open file '/home/a/trian.py': [Errno 2] No such file or directory", 2,
     "no such file: /home/a/trian.py"),
    ("python3.11: can't open file 'x y.py': [Errno 2] No such file or directory", 2, "no such file: x y.py"),
    ("usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --lrr 0.1", 2,
     "train.py: error: unrecognized arguments: --lrr N"),
    # GPUs
    (TRACEBACK + OOM, 1, "CUDA out of memory"),
    (TRACEBACK + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", 1,
     "CUDA out of memory"),
    (TRACEBACK + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.76 GiB total)", 1,
     "CUDA out of memory"),
    (TRACEBACK + "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be", 1, "CUDA out of memory"),
    ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at", 1,
     "CUDA out of memory"),
    ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474.", 1,
     "CUDA out of memory"),
    ("CUDA error at sim.cu:33 code=2(cudaErrorMemoryAllocation) \"cudaMalloc(&x, n)\"", 1, "CUDA out of memory"),
    ("google.api_core.exceptions.ResourceExhausted: RESOURCE_EXHAUSTED: Quota exceeded", 1, "exit code 1"),
    (TRACEBACK + "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might", 1,
     "CUDA error: device-side assert triggered"),
    (TRACEBACK + "torch.AcceleratorError: CUDA error: device-side assert triggered", 1,
     "CUDA error: device-side assert triggered"),
    (TRACEBACK + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", 1,
     "CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    (TRACEBACK + NCCL, 1, "NCCL error: unhandled system error"),
    ("[rank0]: " + OOM + "\n[rank1]: " + NCCL, 1, "CUDA out of memory"),
    ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)", 1,
     "NCCL error: collective operation timeout"),
    # Shells
    ("bash: line 1: foo: command not found", 127, "command not found: foo"),
    ("/bin/bash: line 12: foo: command not found", 127, "command not found: foo"),
    ("bash: foo: command not found", 127, "command not found: foo"),
    ("sh: 1: foo: not found", 127, "command not found: foo"),
    ("/bin/sh: 1: ./run me.sh: not found", 127, "command not found: ./run me.sh"),
    ("zsh:1: command not found: foo", 127, "command not found: foo"),
    ("env: ‘pyhton’: No such file or directory", 127, "no such file: pyhton"),
    ("bash: line 1: ./x.sh: No such file or directory", 127, "no such file: ./x.sh"),
    ("bash: line 1: ./x.sh: Permission denied", 126, "permission denied: ./x.sh"),
    ("sh: 1: ./x.sh: Permission denied", 126, "permission denied: ./x.sh"),
    (CHAINED + "bash: line 1: foo: command not found", 127, "command not found: foo"),
    (CHAINED + "bash: line 1: foo: command not found", 1, "ValueError: no learning rate"),
    ("bash: line 1: foo: command not found", 1, "command not found: foo"),
    ("cat: data.csv: No such file or directory", 1, "no such file: data.csv"),
    ("ls: cannot access 'data': No such file or directory", 2, "no such file: data"),
    ("bash: line 1: cd: /data/x: No such file or directory", 1, "no such file: /data/x"),
    ("bash: -c: line 1: syntax error near unexpected token `)'", 2,
     "shell: syntax error near unexpected token `)'"),
    ("fatal: not a git repository (or any of the parent directories): .git", 128,
     "fatal: not a git repository (or any of the parent directories): .git"),
    (BUS, 1, BUS),
    # Codes
    ("", 1, "exit code 1"),
    ("", 255, "exit code 255"),
    ("all is well\n", 3, "exit code 3"),
    ("", None, "ended without an exit code"),
    (CHAINED, None, "ValueError: no learning rate"),
    # Signals
    ("", 137, "killed by signal 9 (SIGKILL)"),
    (CHAINED, 137, "killed by signal 9 (SIGKILL)"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=12.0", 137,
     "out of memory killer"),
    ("", 143, "killed by signal 15 (SIGTERM)"),
    ("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-03-20T11:40:02 ***", 143, "cancelled"),
    ("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-03-20T11:40:02 ***", 139,
     "segmentation fault (signal 11, SIGSEGV)"),
    ("", 139, "segmentation fault (signal 11, SIGSEGV)"),
    ("bash: line 1: 4121 Segmentation fault (core dumped) ./a.out", 1, "segmentation fault"),
    ("", 134, "killed by signal 6 (SIGABRT)"),
    ("terminate called throwing 'c10::Error'\n what():  CUDA error: device-side assert triggered",
     134, "CUDA error: device-side assert triggered"),
    ("free(): invalid pointer", 134, "killed by signal 6 (SIGABRT): free(): invalid pointer"),
    ("a.out: a.c:4: main: Assertion `x > 0' failed.", 134,
     "killed by signal 6 (SIGABRT): Assertion `x > 0' failed"),
    ("", 163, "killed by signal 35"),
    ("", 192, "killed by signal 64 (SIGRTMAX)"),
    ("", 193, "exit code 193"),
    ("", 128, "exit code 128"),
]  # fmt: skip


@pytest.mark.parametrize(("tail", "code", "words"), CASES)
def test_signatures(tail: str, code: int | None, words: str) -> None:
    assert signature(tail.encode(), code) == words


ALIKE = [
    ("ValueError: object at 0x7f00aa is bad", "ValueError: object at 0x7fffbb is bad"),
    ("RuntimeError: DataLoader worker (pid 123) is killed", "RuntimeError: DataLoader worker (pid 99) is killed"),
    ("MemoryError: Unable to allocate 7.45 GiB for an array",
     "MemoryError: Unable to allocate 12 GiB for an array"),
    ("RuntimeError: you tried to allocate 400 bytes.", "RuntimeError: you tried to allocate 80000 bytes."),
    ("RuntimeError: shapes cannot be multiplied (32x512 and 256x10)",
     "RuntimeError: shapes cannot be multiplied (64x512 and 256x10)"),
    ("IndexError: index 10 is out of bounds for axis 0 with size 10",
     "IndexError: index 7 is out of bounds for axis 0 with size 7"),
    ("RuntimeError: The size of tensor a (3) must match", "RuntimeError: The size of tensor a (16) must match"),
    ("OSError: cannot lock '/tmp/tmpab12/x.lock'", "OSError: cannot lock '/tmp/tmpzz99/x.lock'"),
    ("OSError: cannot lock /tmp/pymp-a/tmpab", "OSError: cannot lock /tmp/pymp-b/tmpcd"),
    ("OSError: cannot lock /tmp/wandb-7f3", "OSError: cannot lock /tmp/wandb-8a1"),
    ("OSError: cannot lock /tmp/tmpab12", "OSError: cannot lock /tmp/tmpzz99"),
    ("ValueError: run 0f8fad5b-d9cb-469f-a165-70867728950e",
     "ValueError: run 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ("ValueError: commit deadbeef00112233 gone", "ValueError: commit 99112233deadbeef gone"),
    ("TimeoutError: at 2026-11-16 08:06:46,123", "TimeoutError: at 2026-11-17T09:00:01.5Z"),
    ("TimeoutError: after 0:10:01", "TimeoutError: after 12:00:07"),
    ("RuntimeError: Error at kernel.cu:12 on cuda:0", "RuntimeError: Error at kernel.cu:9 on cuda:3"),
    ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
     "json.decoder.JSONDecodeError: Expecting value: line 9 column 4 (char 88)"),
    ("FloatingPointError: loss 1.5e-7", "FloatingPointError: loss -3.25e+12"),
    ("TimeoutError: took 3.5s", "TimeoutError: took 12s"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_error_gets_the_same_signature(one: str, other: str) -> None:
    assert signature(one.encode(), 1) == signature(other.encode(), 1)
    assert signature(one.encode(), 1).startswith(one.partition(":")[0])


DIFFERENT = [
    ("ModuleNotFoundError: No module named 'timm'", "ModuleNotFoundError: No module named 'timm2'"),
    ("KeyError: 'fold_1'", "KeyError: 'fold_2'"),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'",
     "FileNotFoundError: [Errno 2] No such file or directory: 'b.csv'"),
    ("OSError: [Errno 28] x", "OSError: [Errno 12] x"),
    ("OSError: cannot open /tmp/one.py", "OSError: cannot open /tmp/two.py"),
    ("OSError: cannot open /tmp/a/one.pt", "OSError: cannot open /tmp/a/two.pt"),
    ("urllib.error.HTTPError: HTTP Error 404: x", "urllib.error.HTTPError: HTTP Error 503: x"),
    ("AttributeError: no resnet50", "AttributeError: no resnet18"),
    ("ValueError: x", "TypeError: x"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_names_that_matter_keep_errors_apart(one: str, other: str) -> None:
    assert signature(one.encode(), 1) != signature(other.encode(), 1)


@pytest.mark.parametrize(("code", "number"), [(None, None), (0, None), (128, None), (129, 1), (192, 64), (193, None)])
def test_codes_from_129_to_192_are_signals(code: int | None, number: int | None) -> None:
    assert signal_of(code) == number


PIECES = st.sampled_from(
    ["Traceback (most recent call last):\n", "  File \"x\"\n", "ValueError: x\n", "\x1b[31m", "\r", "0x", ": ",
     "[rank0]: ", "Exception ignored in", "CUDA error: ", "NCCL error", "bash: line 1: ", "/tmp/", "1.", "'",
     "\n", "what(): "]
)  # fmt: skip
TAILS = st.one_of(
    st.binary(max_size=400),
    st.lists(st.one_of(PIECES, st.text(max_size=9))).map(lambda p: "".join(p).encode("utf-8", "replace")),
)
CODES = st.one_of(st.none(), st.integers(0, 255))


@given(TAILS, CODES)
@example(b"ValueError: " + b"x" * 5000, 1)
def test_any_tail_gives_one_short_printable_line(tail: bytes, code: int | None) -> None:
    crash = crash_of(tail, code)
    assert (crash.kind is CrashKind.NONE) == (code == 0)
    for words, longest in ((crash.signature, 200), (crash.message, 300)):
        assert words
        assert len(words) <= longest
        assert words.isprintable() or not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in words)


LONG = 65536
ADVERSARIAL = [
    b'x9 Traceback (most recent call last):\nx9   File "a", line 1\n',
    b'a+b (1)* Traceback (most recent call last):\na+b (1)*   File "a", line 1\n',
    b"  +-+---- 1 ----\n  + Exception Group Traceback (most recent call last):\n",
    b"\x1b[", b"\x1b]", b"\x1b[" + b"0" * LONG, b"\x1b]" + b"a" * LONG, b"a", b"a.", b"a: ", b"0", b"0.", b"0x",
    b"1x", b"/tmp/", b"\n", b"a\n", b"A:\n", b" ", b"f", b"a1", b"\r", b"ValueError: " + b"0." * LONG, b"'", b"(",
    b"a/", b"a_/1", b"ValueError: " + b"/tmp/" * LONG, b"x" * 195 + b": ", b"Traceback (most recent call last)\n",
    b"NCCL error", b"error ", b"Assertion `", b": [Errno 2]", b"python: can't open file '", b"\xe2\x94\x82", b"12:",
    b"a-", b"loss 1 ", b"ValueError: " + b"a." * 400 + b"\n", b"error: " + b"a/" * 490 + b"\n",
    b"  File \"x\", line 1\nerror\n", b"Error in ", b"Client Error: ", b"CUDA error: ", b"what(): ",
    b"OSError: " + b"seed_1/" * 100 + b"\n", b"[rank1]: ValueError: x\n", b"failed (exitcode: -9) local_rank: ",
    b"x.cu:1: Assertion ", b"(a pid=1", b"Last error: ", b"(most recent call last):\n",
    b"Root Cause (first observed failure)\n", b"2026-01-01 ", b"Exceeded a memory ",
    b"cannot find error failed memory cuda\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", ADVERSARIAL, ids=range(len(ADVERSARIAL)))
@pytest.mark.parametrize("code", [1, 127, 134])
def test_no_tail_takes_long(piece: bytes, code: int | None) -> None:
    tail = (piece * (LONG // len(piece) + 1))[:LONG]
    with never_hanging():
        signature(tail, code)


@given(st.lists(PIECES, min_size=1, max_size=6), CODES)
@settings(max_examples=50)
def test_no_repeated_pattern_takes_long(pieces: list[str], code: int | None) -> None:
    test_no_tail_takes_long("".join(pieces).encode(), code)


ORDINARY = [
    b"epoch 3 step 1200 loss 2.913 acc 0.412 err 0.588 eta 3:12:07\n",
    b"/home/a/train.py:41: FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.\n",
    b'[rank3]: Traceback (most recent call last):\n[rank3]:   File "/a/b.py", line 3, in f\n[rank3]:     g()\n'
    b"[rank3]: RuntimeError: [gloo/pair.cc:534] Connection closed by peer [10.12.0.7]:51342\n",
]


@pytest.mark.parametrize("line", ORDINARY, ids=["work", "warnings", "ranks"])
def test_the_cost_grows_linearly_with_the_tail(line: bytes) -> None:
    """No line is compared with all the others."""

    def cost(length: int) -> int:
        tail = (line * length)[:length]
        return operations(lambda: signature(tail, 1))

    assert cost(LONG) < 5 * cost(LONG // 4)


def test_only_the_end_of_a_long_log_counts() -> None:
    early = b"ValueError: early\n"
    assert signature(early + b"step\n" * 100_000, 1) == "exit code 1"


COMPLAINT = "cat: x: No such file or directory\n"
KILLED = "slurmstepd: error: Detected 1 oom_kill event"


@pytest.mark.parametrize(
    ("out", "err", "code", "signature"),
    [
        ("ValueError: printed\n", CHAINED, 1, "ValueError: no learning rate"),
        (CHAINED, COMPLAINT, 1, "ValueError: no learning rate"),
        (CHAINED, None, 1, "ValueError: no learning rate"),
        (KILLED, "\n", 137, "out of memory killer"),
    ],
    ids=["a traceback in ERR", "a traceback in OUT", "merged streams", "the out of memory killer"],
)
def test_the_log_that_says_more_counts(tmp_path: Path, out: str, err: str | None, code: int, signature: str) -> None:
    for name, text in (("OUT", out), ("ERR", err)):
        (tmp_path / name).write_text(text or "")
    crash = job_crash(str(tmp_path / "OUT"), str(tmp_path / "ERR") if err is not None else None, code)
    assert crash.signature == signature


def test_missing_logs_leave_the_code(tmp_path: Path) -> None:
    assert job_crash(str(tmp_path / "no.OUT"), str(tmp_path / "no.ERR"), 4).signature == "exit code 4"


def test_the_message_keeps_the_numbers_that_the_signature_drops() -> None:
    said = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x128 and 256x10)"
    crash = crash_of(f"{TRACEBACK}{said}\n".encode(), 1)
    assert crash.message == said
    assert crash.signature == crash_of(f"{TRACEBACK}{said.replace('64', '32')}\n".encode(), 1).signature
    assert crash_of(f"{TRACEBACK}ValueError: {'9 ' * 500}\n".encode(), 1).message.endswith("…")
