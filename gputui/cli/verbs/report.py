"""`gputui report`: the session as one page of HTML that can be sent and opened anywhere."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

from gputui.cli.command import carry_out, session
from gputui.cli.output import Exit, out
from gputui.cli.parser import Options, Parser


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Writes one HTML page that needs no network: summary, a table to sort and filter, curves, timeline, failures.",
        usage="report [-o PAGE.html] [--metric NAME]",
        examples="gputui report\ngputui report -o sweep.html --metric 'val_acc max'",
    )
    verb_parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the page (SESSION.html beside the session), or a folder for report.html; -: print it",
    )
    verb_parser.add_argument(
        "--metric", default="", metavar="NAME", help="by another result; 'score max': higher is better"
    )
    verb_parser.add_common("session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    from gputui.cli.report import contents, written_page

    client = session(options)
    page = options.output or f"{client.root}.html"
    if os.path.isdir(page):
        page = os.path.join(page, "report.html")
    elif page.endswith("/"):
        raise Exit(1, f"there is no folder {page}; make it, or choose another place with -o")
    data = contents(client, os.getcwd() + "/-" if page == "-" else page, options.metric)
    written = written_page(data)
    if page == "-":
        out(written)
        return 0
    try:
        _write(page, written)
    except OSError as error:
        raise Exit(1, f"{page} cannot be written: {error.strerror}; choose another place with -o") from None
    out(os.path.abspath(page))
    return 0


def _write(page: str, written: str) -> None:
    """Whole or not at all."""
    folder = os.path.dirname(os.path.abspath(page))
    descriptor, part = tempfile.mkstemp(prefix=".report-", dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(written)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, page)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
