"""`gputui config`: the effective settings and where each comes from."""

from __future__ import annotations

from gputui.cli.command import carry_out, print_json
from gputui.cli.output import out
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Column, Paper, table
from gputui.session.config import VARIABLES, load, user_file

COLUMNS = (Column("key"), Column("value", least=12), Column("from", least=12), Column("variable"))


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows every setting and where it comes from: a GPUTUI_ variable, gputui.toml beside the job file (or here), "
        'or your own config.toml, whose [host."NAME"] parts apply on that machine. Flags override all of them.',
        usage="config [JOBS …] [--json] | config --schema",
        examples="gputui config\ngputui config experiments/jobs.txt\nGPUTUI_PAUSE_AFTER=1 gputui config",
    )
    verb_parser.add_argument(
        "files", nargs="*", metavar="JOBS", help="the job files beside which a gputui.toml would be"
    )
    verb_parser.switch("--schema", help="the JSON schema of spec files (.toml, .yaml), for your editor")
    verb_parser.add_common("json")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.schema:
        return _print_schema()
    config = load(options.files)
    if options.json:
        values = {key: dict(zip(("value", "from"), config.effective(key), strict=True)) for key in config}
        print_json({"settings": values, "user_file": user_file()})
        return 0
    settings = {key: config.effective(key) for key in config}
    rows = [[key, shown(value), origin, VARIABLES.get(key, "")] for key, (value, origin) in settings.items()]
    out("\n".join(table(COLUMNS, rows, Paper(), ["" if row[2] == "default" else "1" for row in rows])))
    return 0


def _print_schema() -> int:
    import json

    from gputui.sources.spec_file import schema

    out(json.dumps(schema(), indent=2))
    return 0


def shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g} s"
        case "":
            return "none"
    return str(value)
