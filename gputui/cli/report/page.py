"""The page itself: style, script and data in one file; nothing in it can be run that is not ours."""

from __future__ import annotations

import json
import os
from html import escape
from typing import Any

__all__ = ["written_page"]

HERE = os.path.dirname(os.path.abspath(__file__))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself lets it load nothing."""


def written_page(data: dict[str, Any], text: str) -> str:
    """`text`: the summary, for browsers that run no scripts."""
    title = escape(f"gputui · {data['session']}")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{title}</title>",
            f"<style>{_file('report.css')}</style></head>",
            f"<body><main id=page><noscript><pre>{escape(text)}</pre></noscript></main>",
            f'<script type="application/json" id="data">{_embedded(data)}</script>',
            f"<script>{_file('report.js')}</script></body></html>",
            "",
        ]
    )


def _embedded(data: dict[str, Any]) -> str:
    """No `</script>` and no `<!--` can stand in it; what is no number in JSON is null already."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()
