"""The shapes that `--json` promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "cli" / "schemas"


def valid(name: str, text: str) -> Any:
    """The value, which has the promised shape."""
    import jsonschema

    value = json.loads(text)
    jsonschema.validate(value, json.loads((FOLDER / f"{name}.json").read_text()))
    return value
