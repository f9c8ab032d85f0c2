"""`gputui config`: print the effective settings and their origins."""

from __future__ import annotations

import json

from gputui.cli.output import Column, out, print_answer, table
from gputui.cli.parser import Options, Parser
from gputui.session.config import VARIABLES, load, user_file

COLUMNS = (Column("key"), Column("value", least=12), Column("from", least=12), Column("variable"))


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Show every setting and where it comes from: a GPUTUI_ variable, gputui.toml beside the job file (or here), "
        'or your own config.toml, whose [host."NAME"] tables apply on that host. Flags override all of them.',
        usage="config [JOBS …] [--json] | config --schema",
        examples="gputui config\ngputui config experiments/jobs.txt\nGPUTUI_PAUSE_AFTER=1 gputui config",
    )
    parser.add_argument("files", nargs="*", metavar="JOBS", help="job files whose gputui.toml applies")
    parser.switch("--schema", help="JSON schema of job files (.toml, .yaml), for your editor")
    parser.add_common("json")
    return parser


def work(options: Options) -> int:
    if options.schema:
        from gputui.sources.spec_file import schema

        out(json.dumps(schema(), indent=2))
        return 0
    config = load(options.files)
    settings = {key: config.effective(key) for key in config}
    values = {key: {"value": value, "from": origin} for key, (value, origin) in settings.items()}
    rows = [[key, _format_value(value), origin, VARIABLES.get(key, "")] for key, (value, origin) in settings.items()]
    colours = ["" if origin == "default" else "1" for _, origin in settings.values()]
    return print_answer(
        lambda: {"settings": values, "user_file": user_file()}, lambda fmt: table(COLUMNS, rows, fmt, colours)
    )


def _format_value(value: object) -> str:
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g} s"
    return str(value)
