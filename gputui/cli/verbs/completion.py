"""`gputui completion`: what makes a shell ask gputui itself when the user presses Tab."""

from __future__ import annotations

from argcomplete.shell_integration import shellcode

from gputui.cli.command import carry_out
from gputui.cli.output import out
from gputui.cli.parser import Options, Parser

SHELLS = ("bash", "zsh", "fish")


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Prints what makes your shell complete verbs, flags, and the ids and names of jobs, GPUs and sessions.",
        usage="completion bash|zsh|fish",
        examples='bash: eval "$(gputui completion bash)"       in ~/.bashrc\n'
        'zsh:  eval "$(gputui completion zsh)"        in ~/.zshrc, after compinit\n'
        "fish: gputui completion fish | source        in ~/.config/fish/config.fish",
    )
    verb_parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    out(str(shellcode(["gputui"], shell=options.shell)).strip("\n"))
    return 0
