"""`gputui reload`: what became of the job files since they were loaded; applies what the user agrees to."""

from __future__ import annotations

import os

from gputui.cli.command import again, again_in, agreed, carry_out, on_terminal, print_json, session
from gputui.cli.output import Exit, out, say
from gputui.cli.parser import Options, Parser
from gputui.session.client import Client
from gputui.session.loading import Again, ReloadPlan, SourceKind, SourceRecord
from gputui.session.messages import Commands
from gputui.session.owner.requests import Forget, Load, Reload, Sources

SHOWN = 20
"""So many jobs of a kind are named; the rest is counted."""


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Reads the session's job files again and shows which jobs are new, changed, gone and done. Jobs are identified "
        "by their command, not by their line. If you agree, new jobs are added, and waiting ones are updated if they "
        "changed and removed if they are gone. Nothing is rerun.",
        usage="reload [-y] [--keep-gone] [--json] | reload --list | reload --forget FILE …",
        examples="gputui reload\ngputui reload -y --keep-gone\ngputui reload --list\ngputui reload --forget gpu.queue",
    )
    verb_parser.switch("--keep-gone", help="leave jobs that are no longer in a file where they are")
    verb_parser.switch(
        "--list", help="the files of this session: loaded, followed, yielders, and how far they were read"
    )
    verb_parser.add_argument(
        "--forget",
        action="append",
        default=[],
        metavar="FILE",
        help="do not reload or follow this file any more; its jobs stay",
    )
    verb_parser.add_common("yes", "json", "no_start", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    client = session(options)
    if options.forget:
        return _forget(client, options)
    remembered = client.ask(Sources())
    if options.list:
        return _list(remembered, options)
    files = [source for source in remembered if source.kind is SourceKind.FILE]
    if not files:
        raise Exit(
            1, f"this session was loaded from no file; load one with: {again_in(client.root, 'gputui run FILE')}"
        )
    return _reload(client, files, options)


def _forget(client: Client, options: Options) -> int:
    names = options.forget
    forgotten = client.ask(Forget(tuple(os.path.abspath(name) for name in names)))
    missing = [name for name in names if os.path.abspath(name) not in forgotten]
    if missing:
        raise Exit(1, f"the session does not know {', '.join(missing)}; see {again(options, 'gputui reload --list')}")
    say(f"forgotten: {', '.join(forgotten)}; its jobs stay")
    return 0


def _list(remembered: list[SourceRecord], options: Options) -> int:
    from gputui.logs.plain import plain

    if options.json:
        print_json(remembered)
        return 0
    for source in remembered:
        units = {SourceKind.FOLLOWED: "bytes", SourceKind.YIELDER: "items"}.get(source.kind)
        read = f"  {source.position} {units} read" if units else ""
        state = f"  ended{': ' + source.trouble if source.trouble else ''}" if source.ended else ""
        out(plain(f"{source.kind:<9} {source.path}{read}{state}"))
    return 0


def _reload(client: Client, records: list[SourceRecord], options: Options) -> int:
    from gputui.session.environment import captured
    from gputui.session.loading import reread
    from gputui.sources.source import BadInput

    try:
        read = reread(records)
    except BadInput as error:
        raise Exit(2, f"{error}; nothing was changed") from None
    plan = client.ask(Reload(tuple(read.specs), frozenset(read.groups)))
    if options.json:
        print_json(plan)
        return 0
    if not _agreed(plan, records, options):
        return 0
    load = Load(plan.load(), captured(), "reload", Again(rerun_failed=False))
    client.ask(load, work=not options.no_start)
    removes = () if options.keep_gone else tuple(plan.removes())
    outcomes = client.ask(Commands(removes)) if removes else []
    for outcome in outcomes:
        if outcome.refused is not None:
            say(outcome.refused)
    removed = sum(outcome.refused is None for outcome in outcomes)
    say(f"{len(plan.new)} added, {len(plan.changed)} updated, {removed} removed")
    return 0


def _agreed(plan: ReloadPlan, records: list[SourceRecord], options: Options) -> bool:
    from gputui.session.loading import told

    lines = told(plan, SHOWN, keep_gone=options.keep_gone)
    for line in lines:
        out(line)
    if plan.nothing or (options.keep_gone and not plan.load()):
        say(f"nothing to apply from {', '.join(os.path.basename(record.path) for record in records)}")
        return False
    if options.yes:
        return True
    if not on_terminal():
        say("nothing was changed; -y applies it")
        return False
    return agreed("apply this?")
