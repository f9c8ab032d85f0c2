"""`gputui config`: print the effective settings and their origins."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct, field

from gputui.cli.output import ERRORS, JSON, SCHEMA, Column, print_answer, table, write
from gputui.cli.parser import Options, Parser
from gputui.session.config import VARIABLES, load, user_file

from . import SUBCOMMANDS

COLUMNS = (Column("key"), Column("value", least=12), Column("from", least=12), Column("variable"))


class SettingShown(Struct, frozen=True):
    value: Any
    origin: str = field(name="from")


class ConfigAnswer(Struct, frozen=True):
    settings: dict[str, SettingShown]
    user_file: str


ANSWERS = {"config": ConfigAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Show every setting and where it comes from: a GPUTUI_ variable, gputui.toml beside the job file (or here), "
        'or your own config.toml, whose [host."NAME"] tables apply on that host. Flags override all of them.',
        usage="config [JOBS …] [--json] | config --schema [jobs|json]",
        examples="gputui config\ngputui config experiments/jobs.txt\nGPUTUI_PAUSE_AFTER=1 gputui config\n"
        "gputui config --schema json > answers.json",
    )
    parser.add_argument("files", nargs="*", metavar="JOBS", help="job files whose gputui.toml applies")
    parser.add_argument(
        "--schema", nargs="?", const="jobs", choices=("jobs", "json"),
        help="print the JSON schema of job files, for your editor, or of the answers to --json",
    )  # fmt: skip
    parser.add_common("json")
    return parser


def work(options: Options) -> int:
    if options.schema is not None:
        from gputui.sources.spec_file import schema

        write(sys.stdout, json.dumps(answer_schema() if options.schema == "json" else schema(), indent=2) + "\n")
        JSON.answered = True
        return 0
    config = load(options.files)
    settings = {key: config.effective(key) for key in config}
    values = {key: SettingShown(value, origin) for key, (value, origin) in settings.items()}
    rows = [[key, _format_value(value), origin, VARIABLES.get(key, "")] for key, (value, origin) in settings.items()]
    colours = ["" if origin == "default" else "1" for _, origin in settings.values()]
    return print_answer(lambda: ConfigAnswer(values, user_file()), lambda fmt: table(COLUMNS, rows, fmt, colours))


def answer_schema() -> dict[str, Any]:
    """Return the JSON schema of the answers of all commands, which the modules of the commands list in `ANSWERS`."""
    answers: dict[str, type] = {}
    for module in sorted({"cli.dry_run", "hosts.survey", *(f"cli.{module}" for module in SUBCOMMANDS.values())}):
        answers |= getattr(import_module(f"gputui.{module}"), "ANSWERS", {})
    references, definitions = msgspec.json.schema_components(answers.values(), ref_template="#/$defs/{name}")
    sparse = {struct.__name__ for struct in _subclasses(Struct) if struct.__struct_config__.omit_defaults}
    for name in definitions.keys() - sparse:
        if properties := definitions[name].get("properties"):
            definitions[name]["required"] = list(properties)  # they are printed even if they have their default value
    common = {"schema": {"const": SCHEMA}, "messages": {"type": "array", "items": {"type": "string"}}}
    error = {"error": {"enum": [*ERRORS.values(), "no-session"]}, "message": {"type": "string"}}
    hint = {"hint": {"type": ["string", "null"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "answers of gputui COMMAND --json",
        "type": "object",
        "properties": {
            command: {"allOf": [reference, {"$ref": "#/$defs/Answer"}]}
            for command, reference in sorted(zip(answers, references, strict=True))
        },
        "$defs": {
            **definitions,
            "Answer": {"type": "object", "properties": common, "required": ["schema"]},
            "Error": {"type": "object", "properties": common | error | hint, "required": ["schema", *error]},
        },
    }


def _subclasses(struct: type[Struct]) -> Iterator[type[Struct]]:
    for subclass in struct.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _format_value(value: object) -> str:
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g} s"
    return str(value)
