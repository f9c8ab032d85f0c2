"""Spec files: every setting reaches the draft, errors name their line, nothing gives a traceback."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.core.job import Request
from gputui.sources.documents import parse_toml, parse_yaml
from gputui.sources.source import BadInput, Draft, specs
from gputui.sources.spec_file import parse_spec, read_spec, schema

TOML = """\
[defaults]
gpus = 2
env = { SEED = 1, DEBUG = true }
project = "lr"

[[job]]
name = "prepare"
gpus = 0
command = '''
set -e
cat <<END
two lines
END
'''

[[job]]
command = "python train.py"
after = ["prepare", 3]
timeout = "2h"
memory = "6G"
devices = [0, "GPU-1"]
env = { SEED = 2 }
wrap = "apptainer exec --nv x.sif"

[matrix]
command = "python train.py --lr {lr} --bs {bs}"
name = "lr{lr}-bs{bs}"
outfile = "logs/{lr}-{bs}.log"
after = "prepare"
env = { LR = "{lr}" }
parameters = { lr = [1e-5, 0.1], bs = "1..2" }
exclude = [{ lr = 0.1, bs = 2 }]
include = [{ lr = "big", bs = 64 }]
"""
YAML = """\
defaults: {gpus: 2, env: {SEED: 1, DEBUG: true}, project: lr}
job:
  - name: prepare
    gpus: 0
    command: |
      set -e
      cat <<END
      two lines
      END
  - command: python train.py
    after: [prepare, 3]
    timeout: 2h
    memory: 6G
    devices: [0, GPU-1]
    env: {SEED: 2}
    wrap: apptainer exec --nv x.sif
matrix:
  command: python train.py --lr {lr} --bs {bs}
  name: lr{lr}-bs{bs}
  outfile: logs/{lr}-{bs}.log
  after: prepare
  env: {LR: "{lr}"}
  parameters: {lr: [1e-5, 0.1], bs: 1..2}
  exclude: [{lr: 0.1, bs: 2}]
  include: [{lr: big, bs: 64}]
"""


def toml(text: str) -> list[Draft]:
    return parse_spec(parse_toml(text, "jobs.toml"))


def yaml(text: str) -> list[Draft]:
    return parse_spec(parse_yaml(text, "jobs.yaml"))


@pytest.mark.parametrize("drafts", [toml(TOML), yaml(YAML)], ids=["toml", "yaml"])
def test_every_setting_reaches_the_spec(drafts: list[Draft]) -> None:
    prepare, train, *matrix = specs(drafts, cwd="/w", environment="e")
    assert prepare.command == "set -e\ncat <<END\ntwo lines\nEND"
    assert (prepare.name, prepare.request, prepare.group) == ("prepare", Request(gpus=0), "lr")
    assert train.after == ("prepare", 3)
    assert train.variables == {"SEED": "2", "DEBUG": "true"}
    assert train.request == Request(gpus=2, devices=("0", "GPU-1"), memory=6 << 30)
    assert (train.timeout, train.wrap) == (7200.0, "apptainer exec --nv x.sif")
    assert [job.command for job in matrix] == [
        "python train.py --lr 1e-5 --bs 1",
        "python train.py --lr 1e-5 --bs 2",
        "python train.py --lr 0.1 --bs 1",
        "python train.py --lr big --bs 64",
    ]
    first = matrix[0]
    assert (first.name, first.outfile, first.after) == ("lr1e-5-bs1", "/w/logs/1e-5-1.log", ("prepare",))
    assert first.variables == {"SEED": "1", "DEBUG": "true", "LR": "1e-5"}
    assert first.params == {"lr": "1e-5", "bs": "1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[job]]\ncommand='a'\n\n[[job]]\ncommand='b'\ngpsu=2", "line 6: 'gpsu' is not a setting; did you mean gpus?"),
        ("[[job]]\ncommand = 'a'\ngpus = -1", "line 3: job[0].gpus: expected a whole number >= 0"),
        ("[[job]]\ncommand = 'a'\ngpus = 'two'", "line 3: job[0].gpus: expected a whole number, got text"),
        ("[[job]]\ncommand = 'a'\ntimeout = 'soon'", "line 3: timeout: 'soon' is not a duration"),
        ("[[job]]\ncommand = 'a'\npriority = 100", "line 3: job[0].priority: expected a whole number <= 99"),
        ("[[job]]\nname = 'a'", "line 1: command is missing"),
        ("[[jop]]\ncommand = 'a'", "line 1: 'jop' is not a setting; did you mean job?"),
        ("[job]\ncommand = 'a'", "line 1: job: expected a list, got a table"),
        ("[[job]]\ncommand = 'a\n", "invalid TOML in jobs.toml"),
        ("", "no jobs in jobs."),
        ("[matrix]\ncommand = '{lr}'\n[matrix.parameters]\nlt = [1]", "line 2: command: {lr} is not a parameter"),
        ("[matrix]\ncommand = 'x'", "line 1: no parameters"),
        ("[matrix]\ncommand='{a}'\nparameters={a='0...9'}", "line 3: parameters.a: invalid range '0...9'"),
        ("[matrix]\ncommand='{a}'\nparameters={a=[1]}\nexclude=[{b=1}]", "line 4: exclude: 'b' is not a parameter"),
        ("[matrix]\ncommand='{a}'\nparameters={a=[1]}\ninclude=[{b=1}]", "a parameter combination has no value for a"),
        ("[matrix]\ncommand='{a}'\nparameters={a='0..99999', b='0..99999'}", "10,000,000,000 combinations; the limit"),
        ("[[job]]\ncommand = 'a'\ntask = 'nope'", "line 3: task: invalid function 'nope': use module:function"),
        ("[[job]]\ncommand = 'a'\nenv = {'' = 1}", "line 3: env: '' is not a name for a variable"),
        ("[[job]]\ncommand = \"a\\u0000\"", "line 1: command contains a NUL byte"),
        ("defaults = 3", "line 1: defaults: expected a table, got a whole number"),
    ],
)  # fmt: skip
def test_errors_in_toml_name_the_line(text: str, message: str) -> None:
    with pytest.raises(BadInput) as wrong:
        toml(text)
    assert message in str(wrong.value)
    assert "jobs.toml" in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job:\n  - command: a\n    gpsu: 2", "jobs.yaml, line 3: 'gpsu' is not a setting; did you mean gpus?"),
        ("job:\n  - command: a\n  - command: [b]", "jobs.yaml, line 3: job[1].command: expected text, got a list"),
        ("job: [a", "jobs.yaml, line 1: invalid YAML"),
        ("a: !!python/object:os.system x", "jobs.yaml, line 1: invalid YAML"),
        ("job:\n- command: a\n\tb", "invalid YAML"),
        ("- a", "jobs.yaml: expected a table, got a list"),
        ("&a [*a]", "jobs.yaml: expected a table"),
        ("", "no jobs in jobs."),
    ],
)
def test_errors_in_yaml_name_the_line(text: str, message: str) -> None:
    with pytest.raises(BadInput) as wrong:
        yaml(text)
    assert message in str(wrong.value)


def test_a_sample_of_a_matrix_is_the_same_for_the_same_seed() -> None:
    text = "[matrix]\ncommand='{a}'\nn_samples=3\nseed=1\nparameters={a='0..99'}"
    assert [draft.command for draft in toml(text)] == [draft.command for draft in toml(text)]
    assert len(toml(text)) == 3


def test_the_schema_for_editors_agrees_with_the_parser() -> None:
    import tomllib

    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    validator.validate(tomllib.loads(TOML))
    for wrong in ("[[job]]\ngpsu = 2", "[[job]]\ngpus = 'two'", "[[job]]\ngpus = 2000", "[jop]"):
        assert not validator.is_valid(tomllib.loads(wrong)), wrong


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[[job]]\ncommand='\xff'"])
def test_files_that_are_not_utf_8_or_missing_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "jobs.toml"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="not UTF-8"):
        read_spec(str(path))
    with pytest.raises(BadInput, match="no such file"):
        read_spec(str(tmp_path / "none.yaml"))


words = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
KEYS = ("command", "gpus", "name", "env", "after", "timeout", "memory", "devices", "parameters", "include", "exclude",
        "cwd", "outfile", "project", "n_samples")  # fmt: skip
tables = st.dictionaries(st.sampled_from(KEYS) | words, values | st.just("x {a}"), max_size=5)


@given(st.dictionaries(st.sampled_from(("job", "defaults", "matrix")), tables | st.lists(tables, max_size=2) | values))
def test_any_document_is_read_or_refused(value: dict[str, object]) -> None:
    from gputui.sources.documents import SpecDocument

    with suppress(BadInput):
        specs(parse_spec(SpecDocument("f", value, lambda _: None)), cwd="/w", environment="e")


@given(st.text() | st.lists(st.sampled_from([*TOML.splitlines(), "'''", '"""', "[", "]]"])).map("\n".join))
def test_any_toml_is_read_or_refused(text: str) -> None:
    with suppress(BadInput):
        toml(text)


@given(st.text() | st.lists(st.sampled_from([*YAML.splitlines(), "- &a [*a]", "? x", "<<: *a", "---"])).map("\n".join))
def test_any_yaml_is_read_or_refused(text: str) -> None:
    with suppress(BadInput):
        yaml(text)


def test_the_example_in_the_readme_is_read() -> None:
    readme = Path(__file__).parents[3] / "README.md"
    example = readme.read_text().split("```toml\n")[1].split("```")[0]
    drafts = toml(example)
    assert len(drafts) == 1 + 5 * 2 - 1
    assert drafts[1].settings.name == "lr1e-05-bs32"
