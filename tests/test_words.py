"""What the product says: no Python in it, right plurals, and what to do in every refusal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TypeVar

from support.house import sources
from support.sentences import Sentence, sentences, text_of

Node = TypeVar("Node", bound=ast.AST)

NOUNS = (
    "jobs|lanes|GPUs|files|hooks|lines|commands|kinds|devices|cores|items|folders|instances|attempts|nodes|processes"
)
NEVER_ONE = {
    "{…} jobs crashed", "{…} jobs crashed alike{…}", "{…} jobs: {…}{…}", "{…} {…} jobs?", "{…} jobs: {…}",
    "{…} jobs crashed in a row, in {…} ways; the last: {…}", "means {…} jobs ({…})", "{…}: {…} jobs ({…})",
    "{…} these {…} jobs?", "{…} {…} jobs ({…}) of {…}? No terminal to ask on: give -y, or name them", "{…} jobs",
    "none of the {…} commands holds", "{…} kinds, newest kind first", "{…} more kinds", "{…} files may be open at once",
    "{…} hooks wait already; further ones are left out", "   ⋮ {…} lines differ only in their numbers; the last:",
    "{…} is more than {…} GPUs", "asks for more than {…} lanes", "a job cannot run on {…} GPUs",
    " in {…} kinds", "{…} more processes and threads may be started",
}  # fmt: skip
"""Said only where there are several, or of a limit."""
REFUSALS = ("refuse", "BadInput", "BadValue", "BadGpus", "BadReplacement", "ConfigError")
WAY_ON = re.compile(
    r"[;:?]|--\w|known\{…\}$|\(\{…\}\)$|^[{…} ]+$"
    r"|\b(write|give|choose|see|leave|only|must|gputui|instead|name one|did you mean|cannot|needs?|known are)\b"
)
"""Also one that ends in what was found to be meant (`known{…}`), or is filled in as a whole."""


def told(found: Iterable[Sentence]) -> list[str]:
    return [f"{each.module}:{each.line}: {each.text}" for each in found]


def test_a_number_before_a_noun_is_counted_in_one_place() -> None:
    wrong = re.compile(rf"\{{…\}} (more |other |running )?({NOUNS})\b|\{{…\}} \w+\{{…\}}( |$)(?<=s\{{…\}} )")
    assert told(each for each in sentences() if wrong.search(each.text) and each.text not in NEVER_ONE) == []


def test_no_sentence_shows_a_value_as_python_does() -> None:
    """`{name=}` and the words of Python's own types."""
    python = re.compile(r"\b(None(?! of)|True|False)\b|\w+=\{…\!r\}|dict\(|\[\'|<class")
    assert told(each for each in sentences() if python.search(each.text)) == []


def test_no_flag_is_read_by_a_type_whose_complaint_is_argparses_own() -> None:
    """`invalid int value: 'x'` says neither what was meant nor what to write."""
    not_for_users = ("gputui.demo.train", "gputui.cli.verbs.keep")
    flags = [(module, node) for module, node in nodes(ast.keyword) if node.arg == "type"]
    read = [(module, node) for module, node in flags if ast.unparse(node.value) in ("int", "float", "bool")]
    assert [f"{module}:{node.value.lineno}" for module, node in read if module not in not_for_users] == []


def test_every_refusal_of_what_was_written_says_more_than_no() -> None:
    calls = [(module, node) for module, node in nodes(ast.Call) if ast.unparse(node.func) in REFUSALS and node.args]
    refusals = (
        Sentence(module, node.lineno, text_of(node.args[0]))
        for module, node in calls
        if isinstance(node.args[0], ast.JoinedStr | ast.Constant)
    )
    assert told(each for each in refusals if not WAY_ON.search(each.text)) == []


def test_every_finding_of_the_doctor_that_is_not_well_says_what_helps() -> None:
    findings = [(module, node) for module, node in nodes(ast.Call) if ast.unparse(node.func) == "Finding"]
    unwell = [(module, node) for module, node in findings if ast.unparse(node.args[0]) == "False"]
    assert len(unwell) > 25
    without = [
        f"{module}:{node.lineno}" for module, node in unwell if len(node.args) < 3 or text_in(node.args[2]) == ""
    ]
    assert without == []


def text_in(node: ast.expr) -> str | None:
    return str(node.value) if isinstance(node, ast.Constant) else None


def nodes(kind: type[Node]) -> list[tuple[str, Node]]:
    return [(module, node) for module, tree in sources().items() for node in ast.walk(tree) if isinstance(node, kind)]


def test_the_list_is_the_products_own_words() -> None:
    modules = {each.module for each in sentences()}
    assert {"gputui.cli.top", "gputui.views.waiting", "gputui.tui.action_table", "gputui.demo.tour"} <= modules
    assert len(sentences()) > 1000
