"""JSON without the json module says what that module says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.session.control import light_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_it_writes_and_reads_what_the_module_does(value: object) -> None:
    text = json.dumps(value)
    assert light_json.dumps(value) == text
    assert light_json.loads(text) == value
    assert light_json.loads(text.encode()) == value


@pytest.mark.parametrize("text", ["", "{", "[1] 2", "nope", '{"a"}', '"\n"'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which sentence it has is up to Python
        light_json.loads(text)


def test_without_the_c_halves_the_module_is_used() -> None:
    script = (
        "import sys; sys.modules['_json'] = None\n"
        "from gputui.session.control import light_json\n"
        "import json; assert light_json.loads is json.loads\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
