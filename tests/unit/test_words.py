"""What the product says: right plurals, what to do in every refusal, and no Python values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TypeVar

from support.sources import Sentence, sentences, sources, text_of

Node = TypeVar("Node", bound=ast.AST)

NOUNS = "jobs|slots|GPUs|files|hooks|lines|commands|errors|devices|cores|items|directories|attempts|nodes|processes"
ALWAYS_SEVERAL = re.compile(
    r"these|No terminal|matches|more processes|jobs failed|more than|exceeds|hooks are|none of|newest first"
    r"|differ only|^\{…\}: |^ \(|^\{…\} jobs(\{…\}|: \{…\})?$"
)
"""Sentences that are only used where there are several, or that state a limit."""
REFUSALS = ("refuse", "BadInput", "BadValue", "BadGpus", "BadReplacement", "ConfigError")
ADVICE = re.compile(
    r"[;:?]|--\w|\{…\}\{…\}$|\(\{…\}\)$|^[{…} ]+$"
    r"|\b(enter|choose|see|omit|only|must|gputui|did you mean|cannot|needs?|between)\b"
    r"|is empty$|given twice$|would be empty$|^unclosed quote|^no permission|not valid UTF-8$"
)
"""What makes a refusal say what to do; the last line lists those in which it is obvious."""


def test_plurals_agree_with_their_numbers() -> None:
    fixed = re.compile(rf"\{{…\}} (more |other |running )?({NOUNS})\b")
    assert (
        described(each for each in sentences() if fixed.search(each.text) and not ALWAYS_SEVERAL.search(each.text))
        == []
    )


def test_no_sentence_shows_a_python_value() -> None:
    python = re.compile(r"\b(None(?! of)|True|False)\b|\w+=\{…\!r\}|dict\(|\[\'|<class")
    assert described(each for each in sentences() if python.search(each.text)) == []


def test_no_option_is_parsed_by_a_type_with_an_error_message_of_argparse() -> None:
    """`invalid int value: 'x'` does not say what to write."""
    not_for_users = ("gputui.demo.train", "gputui.cli.commands.daemon")
    types = [(module, node.value) for module, node in nodes(ast.keyword) if node.arg == "type"]
    plain = [(module, value) for module, value in types if ast.unparse(value) in ("int", "float", "bool")]
    assert [f"{module}:{value.lineno}" for module, value in plain if module not in not_for_users] == []


def test_every_refusal_says_what_to_do() -> None:
    calls = [(module, node) for module, node in nodes(ast.Call) if ast.unparse(node.func) in REFUSALS and node.args]
    refusals = (
        Sentence(module, node.lineno, text_of(node.args[0]))
        for module, node in calls
        if isinstance(node.args[0], ast.JoinedStr | ast.Constant)
    )
    assert described(each for each in refusals if not ADVICE.search(each.text)) == []


def test_every_problem_that_doctor_finds_comes_with_advice() -> None:
    findings = [(module, node) for module, node in nodes(ast.Call) if ast.unparse(node.func) == "Finding"]
    problems = [(module, node) for module, node in findings if ast.unparse(node.args[0]) == "False"]
    assert len(problems) > 25
    assert [
        f"{module}:{node.lineno}" for module, node in problems if len(node.args) < 3 or is_empty(node.args[2])
    ] == []


def is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def described(found: Iterable[Sentence]) -> list[str]:
    return [f"{each.module}:{each.line}: {each.text}" for each in found]


def nodes(kind: type[Node]) -> list[tuple[str, Node]]:
    return [(module, node) for module, tree in sources().items() for node in ast.walk(tree) if isinstance(node, kind)]
