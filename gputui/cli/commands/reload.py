"""`gputui reload`: read the job files again and apply the changes."""

from __future__ import annotations

import os

from msgspec import Struct

from gputui.cli.command import ask_yes_no, find_session, on_terminal, suggest, suggest_in
from gputui.cli.output import JSON, NOT_FOUND, Exit, out, print_answer, print_json, say
from gputui.cli.parser import Options, Parser
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.loading import ReloadPlan, RerunRules, SourceKind, SourceRecord
from gputui.session.messages import Commands
from gputui.session.owner.requests import Forget, Load, Reload, Sources

SHOWN = 20
"""Maximum number of jobs listed for each kind of change. The others are only counted."""


class ReloadAnswer(Struct, frozen=True):
    """The changes in the files, which were applied only with -y, or with --list the files."""

    plan: ReloadPlan | None = None
    applied: bool = False
    sources: list[SourceRecord] = []


ANSWERS = {"reload": ReloadAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Reread the session's job files and show which jobs are new, changed, removed and done. Jobs are matched by "
        "command, not by line. After you confirm, new jobs are added, changed waiting jobs are updated and removed "
        "waiting jobs are dropped. Nothing is rerun.",
        usage="reload [-y] [--keep-gone] [--dry-run] [--json] | reload --list | reload --forget FILE …",
        examples="gputui reload\ngputui reload -y --keep-gone\ngputui reload --list\ngputui reload --forget gpu.queue",
    )
    parser.switch("--keep-gone", help="keep jobs that are no longer in a file")
    parser.switch("--list", help="list this session's files (loaded, followed, yielders) and how far each was read")
    parser.add_argument(
        "--forget",
        action="append",
        default=[],
        metavar="FILE",
        help="stop reloading or following this file; its jobs stay",
    )
    parser.add_common("dry_run", "yes", "json", "no_start", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    if options.forget:
        return _forget(client, options)
    remembered = client.ask(Sources())
    if options.list:
        return _list(remembered, options)
    files = [source for source in remembered if source.kind is SourceKind.FILE]
    if not files:
        raise Exit(
            1, f"this session was not loaded from a file; load one with: {suggest_in(client.root, 'gputui run FILE')}"
        )
    return _reload(client, files, options)


def _forget(client: Client, options: Options) -> int:
    names = options.forget
    forgotten = client.ask(Forget(tuple(os.path.abspath(name) for name in names)))
    missing = [name for name in names if os.path.abspath(name) not in forgotten]
    if missing:
        raise Exit(NOT_FOUND, f"unknown file {', '.join(missing)}; see {suggest(options, 'gputui reload --list')}")
    say(f"forgotten: {', '.join(forgotten)}; its jobs stay")
    return 0


def _list(remembered: list[SourceRecord], options: Options) -> int:
    return print_answer(lambda: ReloadAnswer(sources=remembered), lambda _: map(_describe_source, remembered))


def _describe_source(source: SourceRecord) -> str:
    units = {SourceKind.FOLLOWED: "bytes", SourceKind.YIELDER: "items"}.get(source.kind)
    read = f"  {source.position} {units} read" if units else ""
    state = f"  ended{': ' + source.trouble if source.trouble else ''}" if source.ended else ""
    return plain(f"{source.kind:<9} {source.path}{read}{state}")


def _reload(client: Client, records: list[SourceRecord], options: Options) -> int:
    from gputui.session.code_snapshots import with_code
    from gputui.session.environment import captured
    from gputui.session.loading import reread
    from gputui.sources.source import BadInput

    try:
        read = reread(records)
    except BadInput as error:
        raise Exit(2, f"{error}; nothing was changed") from None
    plan = client.ask(Reload(tuple(read.specs), frozenset(read.groups)))
    if JSON.on and not options.yes:
        print_json(ReloadAnswer(plan))
        return 0
    if not _confirm(plan, records, options):
        return 0
    changed = with_code(None if options.dry_run else client.root, plan.load())
    load = Load(changed, captured(), "reload", RerunRules(rerun_failed=False), by_spec=True)
    loaded = client.ask(load, work=not options.no_start)
    removes = () if options.keep_gone else tuple(plan.removes())
    outcomes = client.ask(Commands(removes)) if removes else []
    if options.dry_run:
        from gputui.cli.dry_run import RefusedCommand, print_preview

        refused = [RefusedCommand(outcome.job, outcome.refused) for outcome in outcomes if outcome.refused is not None]
        gone = [outcome.job for outcome in outcomes if outcome.job is not None and outcome.refused is None]
        return print_preview(client, [*(job.id for job in loaded.by_spec), *gone], refused)
    for outcome in outcomes:
        if outcome.refused is not None:
            say(outcome.refused)
    removed = sum(outcome.refused is None for outcome in outcomes)
    say(f"{len(plan.new)} added, {len(plan.changed)} updated, {removed} removed")
    if JSON.on:
        print_json(ReloadAnswer(plan, applied=True))
    return 0


def _confirm(plan: ReloadPlan, records: list[SourceRecord], options: Options) -> bool:
    from gputui.session.loading import describe_reload

    lines = describe_reload(plan, SHOWN, keep_gone=options.keep_gone)
    for line in lines:
        out(line)
    if plan.nothing or (options.keep_gone and not plan.load()):
        say(f"no changes in {', '.join(os.path.basename(record.path) for record in records)}")
        return False
    if options.yes:
        return True
    if not on_terminal():
        say("nothing was changed; apply with -y")
        return False
    return ask_yes_no("apply changes?")
