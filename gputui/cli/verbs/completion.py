"""`gputui completion`: scripts for bash, zsh and fish, made from the same tables that parse the words."""

from __future__ import annotations

from argparse import Action

from gputui.__main__ import VERBS as MODULES
from gputui.cli.calling import carry_out
from gputui.cli.output.words import out
from gputui.cli.parsing.parser import Options, Parser

SHELLS = ("bash", "zsh", "fish")
WITH_FILES = ("run", "keep", "config")
"""Verbs whose words are files."""


def parser(verb: str) -> Parser:
    made = Parser(
        verb,
        "Prints what makes your shell complete gputui's verbs and flags.",
        usage="completion bash|zsh|fish",
        examples='bash: eval "$(gputui completion bash)"       in ~/.bashrc\n'
        'zsh:  eval "$(gputui completion zsh)"        in ~/.zshrc, after compinit\n'
        "fish: gputui completion fish | source        in ~/.config/fish/config.fish",
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return made


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    out({"bash": bash, "zsh": zsh, "fish": fish}[options.shell]())
    return 0


def flags_of(verb: str) -> list[Action]:
    from importlib import import_module

    made: Parser = import_module(f"gputui.cli.{MODULES[verb]}").parser(verb)
    return [action for action in made._actions if action.option_strings]


def names(verb: str) -> list[str]:
    return [name for one in flags_of(verb) for name in one.option_strings if "_" not in name]


def bash() -> str:
    cases = "\n".join(f"    {verb}) flags='{' '.join(names(verb))}' ;;" for verb in MODULES)
    return f"""\
_gputui() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} flags=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(MODULES)}' -- "$current") $(compgen -f -- "$current"))
    return
  fi
  case $verb in
{cases}
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _gputui gputui"""


def zsh() -> str:
    verbs = " ".join(MODULES)
    cases = "\n".join(f"    {verb}) flags=({' '.join(names(verb))}) ;;" for verb in MODULES)
    return f"""\
_gputui() {{
  local -a flags
  if (( CURRENT == 2 )); then
    compadd -- {verbs}
    _files
    return
  fi
  case ${{words[2]}} in
{cases}
  esac
  if [[ $PREFIX == -* ]]; then compadd -- $flags; else _files; fi
}}
compdef _gputui gputui"""


def fish() -> str:
    lines = [f"complete -c gputui -n __fish_use_subcommand -a '{' '.join(MODULES)}'"]
    for verb in MODULES:
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        lines += [f"complete -c gputui {seen} {_fish_flag(one)}" for one in flags_of(verb)]
        if verb not in WITH_FILES:
            lines.append(f"complete -c gputui {seen} -f")
    return "\n".join(lines)


def _fish_flag(one: Action) -> str:
    spelled = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
        for name in one.option_strings
        if "_" not in name
    ]
    needs = "" if one.nargs == 0 else " -r"
    choices = f" -fa '{' '.join(one.choices)}'" if one.choices else ""
    explained = (one.help or "").replace("\\", "\\\\").replace("'", "\\'")
    return f"{' '.join(spelled)}{needs}{choices} -d '{explained}'"
