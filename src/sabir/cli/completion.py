"""``sabir completion bash|zsh|fish``: a script that completes commands, flags and their values.

The script is generated from the parsers, so it knows every command; it runs no Python while you type.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sabir.errors import MissingExtra
from sabir.observe.logs import inert

HOW: Final = """\
bash: add to ~/.bashrc:             eval "$(sabir completion bash)"
zsh:  add to ~/.zshrc:              eval "$(sabir completion zsh)"
fish: run once:                     sabir completion fish > ~/.config/fish/completions/sabir.fish"""


class CompletionPoint(NamedTuple):
    """A node of the command line: the words that lead there, and what may follow."""

    path: tuple[str, ...]  # such as ("keys", "add")
    commands: tuple[tuple[str, str], ...]  # the next words, and their help
    flags: tuple[tuple[str, str], ...]  # and their help
    values: tuple[tuple[str, tuple[str, ...]], ...]  # of flags and arguments with choices; "" is an argument
    free: tuple[str, ...]  # flags with any value, such as a file; "" is an argument


def add(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HOW
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=list(SCRIPTS), help="the shell to write the script for")


def run(arguments: argparse.Namespace) -> int:
    top = importlib.import_module(f"{__package__}.main").parser()  # it loads this module, so not at the top
    print(inert(SCRIPTS[arguments.shell](list(places(top)))), end="")
    return 0


def places(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[CompletionPoint]:
    """Every node of the command line."""
    with suppress(MissingExtra):  # without its extra, only the name of a command is completed
        parser.format_help()  # loads the arguments of a command
    commands: list[tuple[str, str]] = []
    flags: list[tuple[str, str]] = []
    values: list[tuple[str, tuple[str, ...]]] = []
    free: list[str] = []
    below: list[CompletionPoint] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                commands.append((name, helps.get(name, "")))
                below += places(child, (*path, name))
            continue
        flags += [(flag, action.help or "") for flag in action.option_strings if flag.startswith("--")]
        names = [flag for flag in action.option_strings if flag.startswith("--")] or [""]
        if action.choices is not None:
            values += [(name, tuple(map(str, action.choices))) for name in names]
        elif action.nargs != 0:
            free += names
    yield CompletionPoint(path, tuple(commands), tuple(flags), tuple(values), tuple(free))
    yield from below


def bash(found: Sequence[CompletionPoint]) -> str:
    steps = [" ".join(("sabir", *place.path)) for place in found if place.path]
    lines = [
        "_sabir() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" at=sabir flags="" words="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        '    case "$at ${COMP_WORDS[i]}" in',
        f'      {"|".join(shlex.quote(step) for step in steps)}) at="$at ${{COMP_WORDS[i]}}" ;;',
        "    esac",
        "  done",
        '  case "$at $prev" in',
    ]
    for place in found:
        for flag, values in place.values:
            if flag:
                at = " ".join(("sabir", *place.path, flag))
                lines.append(f'    {shlex.quote(at)}) COMPREPLY=($(compgen -W {_words(values)} -- "$cur")); return ;;')
        free = [shlex.quote(" ".join(("sabir", *place.path, flag))) for flag in place.free if flag]
        if free:  # the shell completes file names
            lines.append(f"    {'|'.join(free)}) COMPREPLY=(); return ;;")
    lines += ["  esac", '  case "$at" in']
    for place in found:
        words = [name for name, _ in place.commands]
        words += [value for flag, values in place.values if not flag for value in values]
        flags = [name for name, _ in place.flags]
        if not words and "" not in place.free:
            words = flags  # elsewhere they would be in the way of the file names: they follow a dash
        at = shlex.quote(" ".join(("sabir", *place.path)))
        lines.append(f"    {at}) flags={_words(flags)} words={_words(words)} ;;")
    lines += [
        "  esac",
        '  [[ $cur == -* ]] && words="$flags"',
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        "}",
        "complete -o default -F _sabir sabir",
    ]
    return "\n".join(lines) + "\n"


def zsh(found: Sequence[CompletionPoint]) -> str:
    """The same, through zsh's bash compatibility."""
    return (
        "#compdef sabir\n"
        "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
        "autoload -Uz bashcompinit && bashcompinit\n" + bash(found)
    )


def fish(found: Sequence[CompletionPoint]) -> str:
    lines = []
    for place in found:
        before = f"complete -c sabir -n {shlex.quote(_seen(place))}"
        for name, about in place.commands:
            lines.append(f"{before} -f -a {name} -d {_fish_quoted(about)}")
        choices = dict(place.values)
        for flag, about in place.flags:
            values = f" -x -a {_words(choices[flag])}" if flag in choices else ""
            lines.append(f"{before} -l {flag.removeprefix('--')}{values} -d {_fish_quoted(about)}")
        if "" in choices:
            lines.append(f"{before} -f -a {_words(choices[''])}")
    return "\n".join(lines) + "\n"


def _seen(place: CompletionPoint) -> str:
    if not place.path:
        return "__fish_use_subcommand"
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in place.path)
    names = " ".join(name for name, _ in place.commands)
    return f"{seen}; and not __fish_seen_subcommand_from {names}" if names else seen


def _words(words: Sequence[str]) -> str:
    return shlex.quote(" ".join(words))


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: Final = {"bash": bash, "zsh": zsh, "fish": fish}
