"""`gputui mcp`: an MCP server on standard input and output, with which coding agents use a session.

Each tool runs one gputui command with --json and returns its answer, so that agents and scripts get the same data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.cli.output import REFUSED, Exit
from gputui.cli.parser import Options, Parser

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.context import Context
    from mcp.server.mcpserver.tools import Tool
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import ValidationError

INSTRUCTIONS = (
    "gputui queues shell commands on the GPUs of this machine. Add jobs with a key, so that repeating a call adds no "
    "second job; then call wait with a timeout instead of polling, and read results. failures groups failed jobs by "
    "error. Jobs keep running when this server ends."
)
JobWord = int | str
"""The id or name of a job. Agents pass an id as a number or as text."""
MOST_LINES = 500
JOB_FIELDS = ("id", "name", "state", "group", "params", "exit_code", "signal", "why", "end", "progress", "eta", "gpus")
"""The fields of a job in the answer of the tool `status`. The tool `job` returns all of them."""


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Serve a session to a coding agent over MCP, on standard input and output. It needs the mcp package "
        "(pip install mcp). Every tool returns what the command of the same name prints with --json.",
        usage="mcp [--read-only] [--session DIR]",
        examples="claude mcp add gputui -- gputui mcp --session ~/runs\ngputui mcp --read-only",
    )
    parser.switch("--read-only", help="offer only the tools that change nothing")
    parser.add_common("session")
    return parser


def work(options: Options) -> int:
    try:
        import mcp  # noqa: F401  # only to find out whether it is installed
    except ImportError:
        raise Exit(REFUSED, "gputui mcp needs the mcp package in its environment: pip install mcp") from None
    server(options.session, read_only=options.read_only).run("stdio")
    return 0


def server(session: str | None, *, read_only: bool) -> MCPServer:
    """Return a server for the session in a directory, or else for the one that gputui finds."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool
    from mcp_types import ToolAnnotations
    from pydantic import ValidationError

    class Server(MCPServer):
        """Reports invalid arguments in one sentence instead of pydantic's list."""

        async def call_tool(
            self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
        ) -> CallToolResult | InputRequiredResult:
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                if isinstance(error.__cause__, ValidationError):
                    raise ToolError(f"{name}: {_describe(error.__cause__)}") from None
                raise

    tools = Tools(session)
    looks = ToolAnnotations(read_only_hint=True)
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    ends = ToolAnnotations(read_only_hint=False, destructive_hint=True)
    offered: list[tuple[ToolAnnotations, list[Callable[..., Any]]]] = [
        (looks, [tools.status, tools.job, tools.logs, tools.results, tools.failures, tools.gpus, tools.wait]),
        (looks, [tools.preview_sweep]),
    ]
    if not read_only:
        offered += [(adds, [tools.add, tools.sweep, tools.rerun, tools.resume]), (ends, [tools.kill, tools.requeue])]
    served = Server(
        "gputui",
        version=__version__,
        instructions=INSTRUCTIONS,
        log_level="ERROR",
        tools=[
            _without_extra_arguments(Tool.from_function(function, annotations=hints))
            for hints, functions in offered
            for function in functions
        ],
    )
    served.resource("gputui://results", mime_type="text/csv")(tools.results_table)
    served.resource("gputui://jobs/{job}/log", mime_type="text/plain")(tools.log_text)
    return served


def _without_extra_arguments(tool: Tool) -> Tool:
    """Make a tool refuse arguments that it does not have. The SDK ignores them."""
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


def _describe(invalid: ValidationError) -> str:
    """Return one sentence about the first invalid argument."""
    first = invalid.errors(include_url=False)[0]
    if first["type"] == "extra_forbidden":
        return f"no such argument: {first['loc'][0]!r}; nothing was done"
    return f"invalid argument {first['loc'][0]!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"


class Tools:
    """The tools and resources. Their names, parameters and docstrings are what an agent sees."""

    def __init__(self, session: str | None) -> None:
        self._session = session

    async def status(self, states: list[str] | None = None, group: str = "", most_jobs: int = 50) -> dict[str, Any]:
        """Show the scheduler's state, the number of jobs in each state, and jobs with the reason why they wait.

        `states` selects jobs: waiting, active, failed, ended, or a state such as running. The answer has at most
        `most_jobs` jobs; `omitted` is the number of the others.
        """
        _check("most_jobs", most_jobs, 0, None)
        answer = await self._ask("ls", *_flags("--state", states or []), *_flags("--group", [group] if group else []))
        jobs = answer["jobs"]
        shown = [{key: job[key] for key in JOB_FIELDS if job.get(key) not in (None, "")} for job in jobs[:most_jobs]]
        return {**answer, "jobs": shown, "omitted": len(jobs) - len(shown)}

    async def job(self, job: JobWord) -> dict[str, Any]:
        """Show one job: settings, attempts, results, files and history. `job` is an id or a name."""
        return await self._ask("show", *_operands(job))

    async def logs(self, job: JobWord, lines: int = 50, stderr: bool = False, attempt: int = 0) -> str:
        """Return the last lines of a job's output (at most 500). `attempt` 0 is the newest attempt."""
        _check("lines", lines, 1, MOST_LINES)
        flags = ["--err"] * stderr + ["--attempt", str(attempt)] * bool(attempt)
        return await self._run("logs", *_operands(job), "-n", str(lines), *flags)

    async def results(self, metric: str = "", top: int = 20) -> dict[str, Any]:
        """Return the metrics that jobs printed, best first, beside the parameters that differ.

        `metric` chooses the metric to compare by, such as `val_loss`, or `score max` if higher is better.
        """
        return await self._ask("results", "--top", str(top), *_flags("--metric", [metric] if metric else []))

    async def failures(self) -> list[dict[str, Any]]:
        """Group failed jobs by error: the message, the jobs, and what these jobs have in common."""
        groups: list[dict[str, Any]] = (await self._ask("summary"))["failures"]
        return groups

    async def gpus(self) -> dict[str, Any]:
        """Show slots and GPUs: load, memory, temperature, processes and their users."""
        return await self._ask("gpus")

    async def wait(
        self, jobs: list[JobWord] | None = None, any_of_them: bool = False, since: str = "", timeout_seconds: int = 600
    ) -> dict[str, Any]:
        """Wait until jobs have ended (all jobs of the session if none are named), without polling.

        Returns the ended jobs with state, error, main result and last lines of output, and the jobs that still run.
        With `since`, a cursor from an earlier answer, it returns at the first end after that cursor, so that repeated
        calls miss none. After the timeout `timed_out` is true; the jobs continue.
        `cannot_start` and `paused` say why it returned although none of the jobs can start; resume ends a pause.
        """
        flags = ["--any"] * any_of_them + ["--next", "--since", *_operands(since)] * bool(since)
        return await self._ask("wait", *_operands(*jobs or []), *flags, "--timeout", f"{timeout_seconds}s")

    async def preview_sweep(
        self, pattern: str, parameters: dict[str, list[str]], samples: int = 0, seed: int = 0
    ) -> list[str]:
        """Return the commands that `sweep` would add, without adding them."""
        return (await run("sweep", *_sweep(pattern, parameters, samples, seed))).splitlines()

    async def add(
        self,
        command: str,
        key: str = "",
        name: str = "",
        cwd: str = "",
        group: str = "",
        gpus: int | None = None,
        memory: str = "",
        priority: int | None = None,
        after: list[JobWord] | None = None,
        retries: int | None = None,
        timeout: str = "",
        budget: str = "",
        on_oom: str = "",
        metric: str = "",
    ) -> dict[str, Any]:
        """Add a shell command to the queue and return its id.

        With a `key` the call can be repeated: the same key always gives the same job, with `created` false the second
        time. `memory` is GPU memory such as 20G, `timeout` a duration such as 2h, `after` ids or names of jobs that
        must succeed first. `gpus` 0 is a job that needs no GPU. `budget` such as `20 gpu-h` limits the GPU time of the
        group, `on_oom` is alone, bigger or fail, and `metric` is what to compare jobs by, such as `val_acc max`.
        """
        chosen = {"key": key, "name": name, "cwd": cwd, "group": group, "memory": memory, "timeout": timeout}
        chosen |= {"budget": budget, "on-oom": on_oom, "metric": metric, "after": ",".join(map(str, after or []))}
        numbers = {"gpus": gpus, "priority": priority, "retries": retries}
        chosen |= {flag: str(number) for flag, number in numbers.items() if number is not None}
        flags = [f"--{flag}={value}" for flag, value in chosen.items() if value]
        return await self._ask("add", *flags, words=["--", command])

    async def sweep(
        self, pattern: str, parameters: dict[str, list[str]], key: str = "", samples: int = 0, seed: int = 0
    ) -> dict[str, Any]:
        """Add one job for each combination of parameters: `python train.py --lr {lr}`, {"lr": ["0.1", "0.01"]}.

        `samples` limits the number of combinations, chosen by `seed`. With a `key` the call can be repeated.
        """
        flags = ["--add", *_flags("--key", [key] if key else [])]
        return await self._ask("sweep", *_sweep(pattern, parameters, samples, seed), *flags)

    async def rerun(self, jobs: list[JobWord] | None = None, all_at_once: bool = False) -> dict[str, Any]:
        """Run ended jobs again, by default all that failed. One runs first, the others when it succeeds.

        To run a changed command, add it as a new job instead.
        """
        chosen = _operands(*jobs) if jobs else ["--all-failed"]
        return await self._ask("rerun", *chosen, *["--all-at-once"] * all_at_once, "-y")

    async def kill(self, jobs: list[JobWord], now: bool = False) -> dict[str, Any]:
        """Stop jobs for good: SIGTERM, and SIGKILL after the grace period or at once. Waiting jobs will not start."""
        return await self._ask("kill", *_operands(*jobs), *["--now"] * now, "-y")

    async def requeue(self, jobs: list[JobWord]) -> dict[str, Any]:
        """Stop running jobs gracefully and put them back in the queue, with the same checkpoint directory."""
        return await self._ask("requeue", *_operands(*jobs), "-y")

    async def resume(self) -> dict[str, Any]:
        """Start jobs again, whatever paused them. Fix the cause first."""
        return await self._ask("resume")

    async def results_table(self) -> str:
        """All results as CSV, one row per job."""
        return await self._run("results", "--csv")

    async def log_text(self, job: str) -> str:
        """The last 500 lines of a job's output."""
        return await self.logs(job, MOST_LINES)

    async def _ask(self, command: str, *arguments: str, words: list[str] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self._run(command, *arguments, "--json", words=words))
        return answer

    async def _run(self, command: str, *arguments: str, words: list[str] | None = None) -> str:
        session = ["--session", self._session] if self._session else []
        return await run(command, *arguments, *session, *(words or []))


async def run(*words: str) -> str:
    """Run a gputui command and return its output. If it printed none and failed, raise its error message."""
    from anyio import run_process
    from mcp.server.mcpserver.exceptions import ToolError

    done = await run_process([sys.executable, "-P", "-m", "gputui", *words], input=b"", check=False)
    if done.returncode and not done.stdout:
        raise ToolError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode(errors="replace")


def _flags(flag: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def _check(argument: str, value: int, lowest: int, highest: int | None) -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    if value < lowest or (highest is not None and value > highest):
        limits = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"
        raise ToolError(f"invalid argument {argument!r}: {value}; use {limits}")


def _operands(*given: JobWord) -> list[str]:
    """Return words for the command line. Raise ToolError if one of them is an option. Negative numbers
    are not options.
    """
    from mcp.server.mcpserver.exceptions import ToolError

    values = list(map(str, given))
    if option := next((value for value in values if value[:1] == "-" and not value[1:2].isdecimal()), None):
        raise ToolError(f"{option!r} is an option; use ids, ranges such as 3-9, names or values")
    return values


def _sweep(pattern: str, parameters: dict[str, list[str]], samples: int, seed: int) -> list[str]:
    given = [word for name, values in parameters.items() for word in ("-p", *_operands(name, *values))]
    return [*_operands(pattern), *given, *(["--n-samples", str(samples)] if samples else []), "--seed", str(seed)]
