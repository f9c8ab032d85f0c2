"""The flags of the app: those of `run` that make sense with a screen, and a few of its own."""

from __future__ import annotations

from .parser import Parser
from .session_flags import add_session_flags

EXAMPLES = """\
examples:
  gputui jobs.txt                       one command per line; the queue, every GPU and the logs on one screen
  gputui --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  producer | gputui -                   commands as they come
  gputui                                the session here; without one, a live GPU monitor
  gputui --read-only                    a second screen: looks on while another gputui has the session

Leave with q: jobs go on, and gputui brings the screen back. ? shows the keys.
All verbs: gputui help
"""


def parser(verb: str) -> Parser:
    verb_parser = Parser(verb, "GPU job queue on one screen.", epilog=EXAMPLES, allow_abbrev=True)
    verb_parser.add_argument("--session", metavar="DIR", help="open this session")
    looks = "only look: no key changes anything; where another gputui has the session, look on beside it"
    verb_parser.add_argument("--read-only", action="store_true", help=looks)
    verb_parser.add_argument("--theme", choices=("dark", "light", "ansi", "ansi-light"), help="how it looks (dark)")
    verb_parser.add_argument("--ascii", action="store_true", help="draw with ASCII signs only")
    verb_parser.add_argument("--no-diff", action="store_true", help="send all that is painted, not only what changed")
    add_session_flags(verb_parser)
    return verb_parser
