"""An agent uses a session over MCP: a real client, a real server on standard input and output, real jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent, TextResourceContents
from support.sessions import Home

LOOKING = {"status", "job", "logs", "results", "failures", "gpus", "wait", "preview_sweep"}
CHANGING = {"add", "sweep", "rerun", "resume", "kill", "requeue"}


class Agent:
    """A client of a server process, which reads the structured answers of tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        answer = result.structured_content
        assert isinstance(answer, dict)
        return answer["result"] if set(answer) == {"result"} else answer

    async def error(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        return text_of(result).removeprefix(f"Error executing tool {tool}: ")

    async def resource(self, uri: str) -> str:
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        return content.text


def text_of(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


def arguments(home: Home, *flags: str) -> list[str]:
    return ["-m", "gputui", "mcp", "--session", str(home.root), *flags]


def with_agent(home: Home, use: Callable[[Agent], Awaitable[None]], *flags: str) -> None:
    """Start a server for a session, connect to it and use it."""
    server = StdioServerParameters(command=sys.executable, args=arguments(home, *flags), env=dict(os.environ))

    async def main() -> None:
        with anyio.fail_after(120):
            async with Client(server) as client:
                await use(Agent(client))

    anyio.run(main)


def test_an_agent_runs_a_sweep_and_learns_which_run_was_best_and_why_one_failed(home: Home) -> None:
    home.begin()
    pattern = "test {lr} != 0.3 || {{ echo 'ValueError: lr is too high' >&2; exit 3; }}; echo val_loss={lr}"
    parameters = {"lr": ["0.1", "0.2", "0.3"]}

    async def use(agent: Agent) -> None:
        assert len(await agent.call("preview_sweep", pattern=pattern, parameters=parameters)) == 3
        assert (await agent.call("status"))["jobs"] == []
        added = await agent.call("sweep", pattern=pattern, parameters=parameters, key="night")
        again = await agent.call("sweep", pattern=pattern, parameters=parameters, key="night")
        first = await agent.call("wait", since=added["cursor"], timeout_seconds=1)
        assert first["paused"]["group"] is None
        assert not first["timed_out"]
        assert [job["created"] for job in added["jobs"]] == [True] * 3
        assert [(job["id"], job["created"]) for job in again["jobs"]] == [(job["id"], False) for job in added["jobs"]]
        home.resume()
        assert (await agent.call("wait", since=added["cursor"], timeout_seconds=60))["ended"]
        ended = await agent.call("wait", timeout_seconds=60)
        assert sorted(job["state"] for job in ended["ended"]) == ["failed", "succeeded", "succeeded"]
        best = (await agent.call("results"))["jobs"][0]
        assert best["params"] == {"lr": "0.1"}
        (group,) = await agent.call("failures")
        assert group["message"] == "ValueError: lr is too high"
        (failed,) = group["jobs"]
        assert "ValueError: lr is too high" in await agent.call("logs", job=str(failed), stderr=True)
        assert "val_loss=0.1" in await agent.resource(f"gputui://jobs/{best['id']}/log")
        assert "0.1" in await agent.resource("gputui://results")

    with_agent(home, use)


def test_it_kills_and_reruns_jobs_and_waits_no_longer_than_it_was_told(home: Home) -> None:
    home.begin()

    async def use(agent: Agent) -> None:
        (job,) = (await agent.call("add", command="exec sleep 600", name="long"))["jobs"]
        home.resume()
        waited = await agent.call("wait", jobs=[str(job["id"])], timeout_seconds=1)
        assert waited["timed_out"]
        await agent.call("kill", jobs=["long"], now=True)
        (ended,) = (await agent.call("wait", timeout_seconds=60))["ended"]
        assert ended["state"] == "killed"
        await agent.call("rerun", jobs=["long"])
        assert (await agent.call("job", job="long"))["attempt"] == 2

    with_agent(home, use)


def test_what_is_wrong_is_an_error_with_a_hint_and_changes_nothing(home: Home) -> None:
    home.begin("true")

    async def use(agent: Agent) -> None:
        missing = json.loads(await agent.error("job", job="99"))
        assert missing["error"] == "not-found"
        assert "99" in missing["message"]
        assert "'--all' is an option" in await agent.error("kill", jobs=["--all"])
        assert "'--add' is an option" in await agent.error("preview_sweep", pattern="--add", parameters={})
        assert "tim" in await agent.error("add", command="true", timeout="soon")
        assert len((await agent.call("status"))["jobs"]) == 1

    with_agent(home, use)


def test_every_tool_refuses_unknown_and_invalid_arguments_in_one_sentence(home: Home) -> None:
    home.begin("true")
    valid = {"string": "x", "array": ["x"], "object": {}, "integer": 1, "boolean": True}

    async def use(agent: Agent) -> None:
        tools = (await agent.client.list_tools()).tools
        assert {tool.name for tool in tools} == LOOKING | CHANGING
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            fields = tool.input_schema["properties"]
            needed = {name: valid.get(fields[name].get("type"), 0) for name in tool.input_schema.get("required", [])}
            error = await agent.error(tool.name, **needed, keys="same")
            assert error == f"{tool.name}: no such argument: 'keys'; nothing was done"
            for name in fields:
                error = await agent.error(tool.name, **needed | {name: {"wrong": [1]} if name != "parameters" else 1})
                assert error.startswith(f"{tool.name}: invalid argument '{name}': ")
                assert "\n" not in error
                assert "http" not in error
        for lines in (-3, 0, 501):
            assert "use 1 to 500" in await agent.error("logs", job=0, lines=lines)
        assert "use 0 or more" in await agent.error("status", most_jobs=-1)
        assert len((await agent.call("status"))["jobs"]) == 1

    with_agent(home, use)


def test_a_job_id_may_be_a_number_or_text_wherever_a_job_is_named(home: Home) -> None:
    home.begin("exec sleep 600")

    async def use(agent: Agent) -> None:
        for first in (0, "0"):
            assert (await agent.call("job", job=first))["id"] == 0
            assert "no output from #0 yet" in await agent.error("logs", job=first)
            (job,) = (await agent.call("add", command="true", after=[first]))["jobs"]
            assert "#0" in json.dumps((await agent.call("status"))["jobs"][job["id"]])
        assert (await agent.call("wait", jobs=[0], timeout_seconds=0))["paused"]
        assert (await agent.call("resume"))["scheduler"]["state"] == "running"
        await agent.call("requeue", jobs=[0])
        await agent.call("kill", jobs=[0], now=True)
        await agent.call("wait", jobs=["0"], timeout_seconds=60)
        await agent.call("rerun", jobs=[0])
        assert json.loads(await agent.error("job", job=999))["error"] == "not-found"

    with_agent(home, use)


def test_add_passes_on_every_setting_that_it_offers(home: Home) -> None:
    home.begin()
    chosen = {"budget": "2 gpu-h", "on_oom": "fail", "metric": "val_acc max", "priority": 30, "retries": 0, "gpus": 0}

    async def use(agent: Agent) -> None:
        (job,) = (await agent.call("add", command="true", group="night", **chosen))["jobs"]
        shown = json.dumps(await agent.call("job", job=job["id"]))
        settings.append(shown)

    settings: list[str] = []
    with_agent(home, use)
    assert '"on_oom": "fail"' in settings[0]
    assert "val_acc max" in settings[0]


def test_a_server_that_may_only_look_offers_no_tool_that_changes_anything(home: Home) -> None:
    home.begin("true")

    async def tools(agent: Agent) -> None:
        offered = (await agent.client.list_tools()).tools
        marked = {tool.name: tool.annotations for tool in offered}
        names.append(set(marked))
        assert all(marked[name].read_only_hint for name in LOOKING)  # type: ignore[union-attr]  # all are marked
        destructive = {name for name, marks in marked.items() if marks is not None and marks.destructive_hint}
        assert destructive == {"kill", "requeue"} & set(marked)

    names: list[set[str]] = []
    with_agent(home, tools)
    with_agent(home, tools, "--read-only")
    assert names == [LOOKING | CHANGING, LOOKING]


def test_garbage_is_answered_or_ignored_and_the_next_message_is_served(home: Home) -> None:
    home.begin("true")
    version = "2025-06-18"
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        "this is no JSON",
        "{}",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "no such tool"}}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "job", "arguments": [1]}}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}),
    ]
    server = subprocess.Popen(
        [sys.executable, *arguments(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write("".join(line + "\n" for line in lines))
        server.stdin.flush()
        answers: dict[int, dict[str, Any]] = {}
        while 4 not in answers:
            line = server.stdout.readline()
            assert line, f"the server has ended: {answers}"
            answer = json.loads(line)
            answers[answer.get("id")] = answer
        server.stdin.close()
        assert server.wait(30) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "gputui"
    assert {tool["name"] for tool in answers[4]["result"]["tools"]} == LOOKING | CHANGING
