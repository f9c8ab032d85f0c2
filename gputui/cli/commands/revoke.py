"""`gputui revoke`: make sure that no job with a key ever runs."""

from __future__ import annotations

from gputui.cli.command import find_session
from gputui.cli.output import JSON, print_json, refuse, say
from gputui.cli.parser import Options, Parser
from gputui.core.events import RevokeKey
from gputui.session.messages import Commands, RevokedKey, RevokedKeys

ANSWERS = {"revoke": RevokedKeys}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Make sure that no job with this key ever runs in the session. From then on, adding a job with the key is "
        "refused. If the job was added but has not run, it is removed; if it is running, has run or was removed, the "
        "key is not revoked. Exit status: 0 if the keys are revoked now, otherwise 1.",
        usage="revoke KEY …",
        examples="gputui revoke night-lr0.1\ngputui revoke night/lr=0.1 night/lr=0.01 --json",
    )
    parser.add_argument("words", nargs="+", metavar="KEY", help="key given to gputui add --key")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    for key in options.words:
        if not key.strip():
            refuse("the key is empty; use the one that was given to gputui add --key")
    keys = [key.strip() for key in options.words]
    outcomes = find_session(options).ask(Commands(tuple(map(RevokeKey, keys))))
    if JSON.on:
        answers = zip(keys, outcomes, strict=True)
        print_json(RevokedKeys([RevokedKey(key, end.refused is None, end.job, end.refused) for key, end in answers]))
    else:
        for key, outcome in zip(keys, outcomes, strict=True):
            removed = f"; #{outcome.job} was removed and did not run" if outcome.job is not None else ""
            say(outcome.refused or f"key {key!r} revoked{removed}")
    return 1 if any(outcome.refused is not None for outcome in outcomes) else 0
