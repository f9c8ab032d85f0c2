"""`add --key` and `revoke`: one job for each key, whatever is repeated; whoever is first wins."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.sessions import Done, Home, finished, said
from support.waiting import until

from gputui.session.control.connection import ClientError


def answer(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer.pop("schema") == 1
    return answer


def add(home: Home, *words: str) -> Any:
    return answer(home.call("add", "--no-start", "--json", *words))["jobs"]


def ids(jobs: list[dict[str, Any]]) -> list[int]:
    return [job["id"] for job in jobs]


def test_the_same_key_is_the_same_job_with_and_without_an_owner(home: Home) -> None:
    home.begin()
    words = ("--key", "night", "--name", "big", "--", "sleep", "0")
    assert add(home, *words) == [{"id": 0, "name": "big", "key": "night", "created": True, "state": "queued"}]
    assert add(home, *words) == [{"id": 0, "name": "big", "key": "night", "created": False, "state": "queued"}]
    home.resume()
    until(lambda: home.ask("listing")["jobs"][0]["state"] == "succeeded", "it has run")
    again = home.call("add", *words)
    assert (again.stdout, said(again)) == ("0\n", "already added as #0 with this key")
    home.call("rm", "0")
    assert add(home, *words)[0]["created"] is False, "a removed job keeps its key"
    home.call("stop")
    assert add(home, *words)[0]["created"] is False
    assert add(home, "--", "sleep", "0")[0]["id"] == 1, "without a key, each add is a new job"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--", "echo", "2"), "another command: echo 1"),
        (("--cwd", "/", "--", "echo", "1"), "another directory"),
        (("--env", "A=1", "--", "echo", "1"), "another environment variables"),
        (("--shell", "sh", "--", "echo", "1"), "another shell"),
        (("--gpus", "2", "--", "echo", "1"), "another number of GPUs"),
    ],
)
def test_other_work_under_the_same_key_is_refused(home: Home, words: tuple[str, ...], what: str) -> None:
    home.begin()
    add(home, "--key", "k", "--", "echo", "1")
    refused = home.call("add", "--no-start", "--key", "k", *words)
    assert refused.returncode != 0
    assert said(refused) == f"key 'k' is used by #0 with {what}; use another key"
    assert len(home.ask("listing")["jobs"]) == 1


OTHER_SETTINGS = (
    "--name other", "--group g", "--budget 1h", "--memory 2G", "--priority 50", "--retries 2", "--retry-on oom",
    "--on-oom fail", "--hang-after 5m", "--on-hang kill", "--metric loss", "--notify", "--checkpoint", "--timeout 2h",
    "--after 0", "--hold", "--outfile out.txt", "--devices 3", "--priority 30",
)  # fmt: skip


def test_a_setting_that_is_named_with_a_known_key_is_the_same_or_refused(home: Home) -> None:
    home.begin("true")
    add(home, "--key", "k", "--priority", "40", "--timeout", "1h", "--", "echo", "1")
    for flags in OTHER_SETTINGS:
        refused = home.call("add", "--no-start", "--json", "--key", "k", *flags.split(), "--", "echo", "1")
        assert refused.returncode == 1, flags
        error = json.loads(refused.stderr)
        name = flags.split()[0].removeprefix("--").replace("-", "_")
        assert error["message"] == f"key 'k' is used by #1 with another {name}; use another key, or gputui edit 1"
        assert error["hint"].startswith("gputui edit 1")
    for same in ((), ("--priority", "40"), ("--timeout", "60m")):
        assert [(job["id"], job["created"]) for job in add(home, "--key", "k", *same, "--", "echo", "1")] == [
            (1, False)
        ]
    assert home.ask("show", job=1)["priority"] == 40


def test_an_edited_job_keeps_its_key_and_what_it_was_added_for(home: Home) -> None:
    home.begin()
    add(home, "--key", "k", "--", "echo", "1")
    spec = home.ask("show", job=0)["spec"]
    changed = {name: value for name, value in spec.items() if name != "key"} | {"command": "echo fixed"}
    assert home.command({"type": "edit", "job": 0, "spec": changed})[0]["refused"] is None
    assert add(home, "--key", "k", "--", "echo", "1") == [
        {"id": 0, "name": "job_0", "key": "k", "created": False, "state": "queued"}
    ]
    assert said(home.call("add", "--no-start", "--key", "k", "--", "echo", "fixed")).startswith("key 'k' is used by #0")
    (outcome,) = home.command({"type": "edit", "job": 0, "spec": spec | {"key": "other"}})
    assert "cannot be changed" in outcome["refused"]


def test_a_failed_job_is_not_rerun_by_adding_it_again(home: Home) -> None:
    home.begin()
    home.resume()
    command = home.told("a", "exit 3")
    home.call("add", "--key", "k", command)
    until(lambda: home.ask("listing")["jobs"][0]["state"] == "failed", "it has failed")
    assert answer(home.call("add", "--json", "--key", "k", command))["jobs"][0]["created"] is False
    assert home.ask("listing")["jobs"][0]["state"] == "failed"
    assert home.runs() == {"a": 1}


# Revoking


def revoke(home: Home, *keys: str) -> list[dict[str, Any]]:
    answer = json.loads(home.call("revoke", "--json", *keys).stdout)
    assert answer["schema"] == 1
    shown: list[dict[str, Any]] = answer["keys"]
    return shown


def test_a_revoked_key_is_never_added(home: Home) -> None:
    home.begin()
    revoked = {"key": "k", "revoked": True, "job": None, "message": None}
    assert revoke(home, "k") == [revoked]
    assert revoke(home, "k") == [revoked], "it can be repeated"
    refused = home.call("add", "--no-start", "--key", "k", "true")
    assert said(refused) == "key 'k' was revoked, so no job is added with it; use another key"
    home.resume()
    assert home.call("add", "--key", "k", "true").returncode != 0
    assert home.ask("listing")["jobs"] == []


def test_a_revocation_removes_a_job_that_has_not_run_and_no_other(home: Home) -> None:
    home.begin()
    add(home, "--key", "waiting", "--hold", "--", "touch", str(home.directory / "ran"))
    add(home, "--key", "ended", "--", "true")
    add(home, "--key", "running", "--", "sleep", "600")
    home.resume()
    until(lambda: home.ask("listing")["jobs"][2]["state"] == "running", "it runs")
    until(lambda: home.ask("listing")["jobs"][1]["state"] == "succeeded", "it has ended")
    add(home, "--key", "removed", "--hold", "--", "true")
    home.call("rm", "3")
    waiting, ended, running, removed = revoke(home, "waiting", "ended", "running", "removed")
    assert (waiting["revoked"], waiting["job"]) == (True, 0)
    assert ended["message"] == "key 'ended' cannot be revoked: #1 has succeeded"
    assert running["message"] == "key 'running' cannot be revoked: #2 is running"
    assert removed["message"] == "key 'removed' cannot be revoked: #3 was removed by the user"
    assert home.call("revoke", "ended").returncode == 1
    assert [job["id"] for job in home.ask("listing")["jobs"]] == [1, 2]
    refused = home.call("add", "--key", "waiting", "--hold", "--", "touch", str(home.directory / "ran"))
    assert "was revoked" in said(refused)
    assert not (home.directory / "ran").exists()


def test_a_revoked_job_that_waits_for_its_next_attempt_has_run(home: Home) -> None:
    home.begin()
    home.resume()
    home.call("add", "--key", "k", "--retries", "1", "exit 3")
    until(lambda: home.ask("listing")["jobs"][0]["state"] == "delayed", "it waits for its retry")
    assert "#0 has already run" in revoke(home, "k")[0]["message"]


# Many at once


def test_twelve_adders_at_once_add_one_job(home: Home) -> None:
    command = home.told("a")
    with ThreadPoolExecutor(12) as pool:
        calls = [pool.submit(home.call, "add", "--json", "--key", "k", command) for _ in range(12)]
        home.begin()
        jobs = [answer(call.result())["jobs"][0] for call in calls]
    assert {job["id"] for job in jobs} == {0}
    assert sum(job["created"] for job in jobs) == 1
    home.resume()
    until(lambda: home.ask("listing")["jobs"][0]["state"] == "succeeded", "it has run")
    assert home.runs() == {"a": 1}


# Sweeps, files and batches


def test_a_sweep_added_again_in_another_order_or_larger_adds_only_what_is_new(home: Home) -> None:
    home.begin()
    pattern = ("echo {lr} {bs}", "--add", "--key", "night", "--json", "--no-start", "-p", "bs", "1", "2")
    first = answer(home.call("sweep", *pattern, "-p", "lr", "0.1", "0.2", "--seed", "1"))["jobs"]
    second = answer(home.call("sweep", *pattern, "-p", "lr", "0.1", "0.2", "0.3", "--seed", "2"))["jobs"]
    assert [job["created"] for job in first] == [True] * 4
    assert sorted(job["key"] for job in first) == sorted(f"night/bs={bs},lr={lr}" for bs in (1, 2) for lr in (0.1, 0.2))
    assert {job["key"]: job["id"] for job in first}.items() <= {job["key"]: job["id"] for job in second}.items()
    assert sum(job["created"] for job in second) == 2


def test_a_value_listed_twice_runs_twice_under_two_keys(home: Home) -> None:
    home.begin()
    words = ("echo {lr}", "--add", "--key", "k", "--json", "--no-start", "-p", "lr", "1", "1")
    first = answer(home.call("sweep", *words))["jobs"]
    assert [job["key"] for job in first] == ["k/lr=1", "k/lr=1 #2"]
    assert ids(answer(home.call("sweep", *words))["jobs"]) == ids(first)


def test_a_key_pattern_that_is_the_same_for_two_commands_is_refused(home: Home) -> None:
    home.begin()
    words = ("echo {lr} {bs}", "--add", "--key", "k{lr}", "--no-start", "-p", "lr", "1", "-p", "bs", "1", "2")
    assert "another command" in said(home.call("sweep", *words))
    assert home.ask("listing")["jobs"] == []


@pytest.mark.parametrize("key", ["", " ", "a\tb", "x" * 501])
def test_an_invalid_key_is_refused(home: Home, key: str) -> None:
    home.begin()
    assert said(home.call("add", "--no-start", "--key", key, "true")).startswith("--key: ")


def test_keys_of_a_job_file_and_of_a_matrix_are_kept_by_the_session(home: Home) -> None:
    (home.directory / "jobs.toml").write_text(
        f'[[job]]\nkey = "a"\ncommand = "{home.told("a")}"\n'
        f'[matrix]\nkey = "m"\ncommand = "{home.told("m{x}")}"\nparameters = {{ x = [1, 2] }}\n'
    )
    (home.directory / "jobs.txt").write_text(f"#: key=b\n{home.told('b')}\n")
    for _ in range(2):
        done = finished(home.start("jobs.toml", "jobs.txt"))
        assert done.returncode == 0, done.stderr
    assert home.runs() == {"a": 1, "b": 1, "m1": 1, "m2": 1}
    assert add(home, "--key", "b", home.told("b"))[0]["created"] is False
    assert [job["spec"]["key"] for job in (home.ask("show", job=number) for number in range(4))] == [
        "a", "m/x=1", "m/x=2", "b",
    ]  # fmt: skip


def test_a_line_that_loses_its_key_keeps_its_job_and_one_that_gets_a_key_is_refused(home: Home) -> None:
    path = home.directory / "jobs.txt"
    path.write_text(f"#: key=a\n{home.told('a')}\n")
    assert finished(home.start("jobs.txt")).returncode == 0
    path.write_text(f"{home.told('a')}\n{home.told('b')}\n")
    assert finished(home.start("jobs.txt")).returncode == 0
    path.write_text(f"{home.told('a')}\n#: key=b\n{home.told('b')}\n")
    err = finished(home.start("jobs.txt")).stderr
    assert "key 'b' is new, but #1 was added from the same line; remove the key" in err
    assert home.runs() == {"a": 1, "b": 1}


def test_a_key_used_twice_in_one_load_is_one_job(home: Home) -> None:
    home.begin()
    specs = [{"command": "true", "cwd": "/", "environment": "", "key": "k"}] * 2
    loaded = home.ask("load", specs=specs, environment={}, origin="", by_spec=True)
    assert [(job["id"], job["created"]) for job in loaded["by_spec"]] == [(0, True), (0, True)]
    specs[1] = specs[1] | {"command": "false", "key": "j"}
    with pytest.raises(ClientError, match="another command"):
        home.ask("load", specs=[specs[1], specs[1] | {"command": "x"}], environment={}, origin="")


# Limits for programs that add jobs


def test_a_group_stops_at_its_budget_and_whoever_asks_is_told_why(home: Home) -> None:
    job = ("#: group=sweep budget=1s", "sleep 0.7")
    run = home.run(home.write(*job * 3), gpus="sim:1")
    assert run.returncode == 1
    assert "1 job waiting: group sweep has used its budget" in run.stderr
    (waiting,) = json.loads(home.call("ls", "--state", "waiting", "--json").stdout)["jobs"]
    assert (waiting["id"], waiting["state"]) == (2, "queued")
    assert waiting["why"].startswith("group sweep has used its budget")
    run = home.run(home.write(*[line.replace("1s", "1 gpu-h").replace("=1 gpu-h", "='1 gpu-h'") for line in job * 3]))
    assert run.returncode == 0, run.stderr


def test_a_program_that_adds_too_many_jobs_is_refused_and_a_file_is_not(home: Home) -> None:
    home.begin()
    home.ask("begin", slots=None, given=False, change_slots=False, settings={"most_waiting": 2}, resume=False)
    sweep = ("sweep", "echo {x}", "-p", "x", "1", "2", "3", "--add", "--no-start")
    refused = home.call(*sweep)
    assert refused.returncode != 0
    assert "0 jobs are waiting and most_waiting is 2; nothing was added" in refused.stderr
    assert home.ask("listing")["jobs"] == []
    add(home, "--", "true")
    add(home, "--key", "k", "--", "true")
    assert add(home, "--key", "k", "--", "true")[0]["created"] is False, "it is there already"
    assert home.call("add", "--no-start", "--", "true").returncode != 0
    home.run(home.write("true", "true", "true"), gpus="cpu:1")
    assert len(home.ask("listing")["jobs"]) == 5
