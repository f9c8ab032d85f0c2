"""The page itself: style, script and data in one file; nothing in it can be run that is not ours."""

from __future__ import annotations

import json
import os
from html import escape
from typing import Any

from gputui.core.views.result_values import result_text

__all__ = ["written_page"]

HERE = os.path.dirname(os.path.abspath(__file__))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself lets it load nothing."""
MOST_STATIC = 500
"""Rows for whoever runs no scripts."""


def written_page(data: dict[str, Any]) -> str:
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
            f"<body><main id=page><noscript>{_without_script(data)}</noscript></main>",
            f'<script type="application/json" id="data">{_embedded(data)}</script>',
            f"<script>{_file('report.js')}</script></body></html>",
            "",
        ]
    )


def _without_script(data: dict[str, Any]) -> str:
    """The facts and the results, for whoever runs no scripts."""
    metric = data["metric"]["name"] if data["metric"] is not None else "result"
    head = ["id", "state", *(parameter["title"] for parameter in data["params"]), metric, "at", "name"]
    rows = [_cells(row, data["decimals"]) for row in data["rows"][:MOST_STATIC]]
    more = max(0, len(data["rows"]) - MOST_STATIC) + data["left_out"]
    return "\n".join(
        [
            f"<h1>{escape(data['session'])}</h1><p>{escape(data['headline'])}</p>",
            f"<table>{_table_row('th', head)}",
            *(_table_row("td", row) for row in rows),
            f"</table>{f'<p>and {more:,} more jobs</p>' if more else ''}",
            "<p>With JavaScript this page has curves, a timeline and a table to sort and filter.</p>",
        ]
    )


def _cells(row: dict[str, Any], decimals: int) -> list[str]:
    best = row["not_finite"] if row["best"] is None else result_text(row["best"], decimals)
    step = "" if row["step"] is None else f"{row['step']:g}"
    return [str(row["id"]), row["state"], *row["params"], best, step, row["name"]]


def _table_row(kind: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _embedded(data: dict[str, Any]) -> str:
    """No `</script>` and no `<!--` can stand in it; what is no number in JSON is null already."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()
