"""`convgrad completion bash|zsh|fish`: a script that completes verbs, options and values, made from the parsers."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable

from convgrad.cli.command_tree import Node, nodes
from convgrad.text.language import say
from convgrad.text.terminal import ExitCode, print_json

_HELP = """\
Prints a script for the shell; files are completed where nothing else is known.

  source <(convgrad completion bash)                      in ~/.bashrc
  convgrad completion zsh > "${fpath[1]}/_convgrad"       once, before compinit
  convgrad completion fish > ~/.config/fish/completions/convgrad.fish
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb `completion`."""
    parser = subparsers.add_parser("completion", help="print a script that completes commands", description=_HELP)
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")
    parser.set_defaults(run=_command)


def _command(arguments: argparse.Namespace) -> int:
    script = _SCRIPTS[arguments.shell](list(nodes()))
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print(script, end="")
    return ExitCode.PASS


def _words(node: Node) -> list[str]:
    own = [name for option in node.options for name in option.names]
    return [*node.verbs, *(c for operand in node.operands for c in operand.choices), *own]


def bash(tree: list[Node]) -> str:
    """A function for `complete -F`: the verbs before the cursor choose the words."""
    lines = [
        "# bash completion of convgrad; made by `convgrad completion bash`",
        "_convgrad() {",
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path="" words="" i',
        "    [[ $word == = ]] && word=",  # --option=value arrives as three words
        "    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "$path ${COMP_WORDS[i]}" in',
        f"            {'|'.join(_quoted(_path(n)) for n in tree if n.path)}) path+=\" ${{COMP_WORDS[i]}}\" ;;",
        "        esac",
        "    done",
        '    case "$path $before" in',
    ]
    for node in tree:
        for option in node.options:
            if option.offered:
                keys = "|".join(_quoted(f"{_path(node)} {name}") for name in option.names)
                lines.append(f"        {keys}) words={shlex.quote(' '.join(option.offered))} ;;")
    valued = [(n, o) for n in tree for o in n.options if o.value and not o.offered]
    keys = "|".join(_quoted(f"{_path(n)} {name}") for n, o in valued for name in o.names)
    lines += [f"        {keys}) ;;", "        *)", '            case "$path" in']
    lines += [f"                {_quoted(_path(n))}) words={shlex.quote(' '.join(_words(n)))} ;;" for n in tree]
    lines += [
        "            esac ;;", "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "    local IFS=$'\\n'  # a file's name may have spaces",
        '    if [[ ${#COMPREPLY[@]} -eq 0 && $word != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); fi',
        "}", "complete -o filenames -F _convgrad convgrad", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _path(node: Node) -> str:
    return "".join(f" {name}" for name in node.path)


def _quoted(text: str) -> str:
    return f'"{text}"'


def zsh(tree: list[Node]) -> str:
    """`_arguments` of every verb; what follows a verb is completed by the function of its path."""
    lines = ["#compdef convgrad", "# made by `convgrad completion zsh`", ""]
    helps = {node.path: node.help for node in tree}
    for node in tree:
        lines.append(f"{_function(node.path)}() {{")
        arguments = []
        for option in node.options:
            value = f":{option.value.lower()}:" + (f"({' '.join(option.offered)})" if option.offered else "_files")
            for name in option.names:
                equals = "=" if option.value and name.startswith("--") else ""
                told = f"{name}{equals}[{_zsh(option.help)}]"
                arguments.append(shlex.quote(told + (value if option.value else "")))
        if node.verbs:
            lines += ["  local line state", f"  _arguments -C {' '.join(arguments)} '1: :->verb' '*::word:->words'",
                      "  case $state in", "    verb)"]  # fmt: skip
            described = [(v, say(helps[node.path + (v,)])) for v in node.verbs]  # noqa: RUF005
            told = " ".join(shlex.quote(f"{verb}:{_zsh(text)}") for verb, text in described)
            lines += [f"      local -a verbs=({told})", "      _describe verb verbs ;;", "    words)"]
            lines.append("      case $line[1] in")
            lines += [f"        {v}) {_function((*node.path, v))} ;;" for v in node.verbs]
            lines += ["      esac ;;", "  esac"]
        else:
            choices = [c for operand in node.operands for c in operand.choices]
            rest = f"'*:word:({' '.join(choices)})'" if choices else "'*:file:_files'"
            lines.append(f"  _arguments {' '.join([*arguments, rest])}")
        lines += ["}", ""]
    # From a file of `fpath` it is called at once; read by `source` or `eval`, it says which command it is for.
    lines.append('if [ "$funcstack[1]" = _convgrad ]; then _convgrad "$@"; else compdef _convgrad convgrad; fi')
    return "\n".join([*lines, ""])


def _function(path: tuple[str, ...]) -> str:
    return "_".join(("_convgrad", *path))


def _zsh(text: str) -> str:
    """Text inside the brackets of `_arguments`."""
    return " ".join(text.replace("[", "(").replace("]", ")").replace(":", ",").replace("\\", "").split())


def fish(tree: list[Node]) -> str:
    """A `complete` line for every verb and option; no files where a verb or a known word is wanted."""
    lines = ["# fish completion of convgrad; made by `convgrad completion fish`"]
    for node in tree:
        seen = [f"__fish_seen_subcommand_from {name}" for name in node.path]
        before = [f"not __fish_seen_subcommand_from {' '.join(node.verbs)}"] if node.verbs else []
        here = f"complete -c convgrad -n {_fish('; and '.join(seen + before))}"
        for verb in node.verbs:
            inner = next(n for n in tree if n.path == (*node.path, verb))
            lines.append(f"{here} -f -a {verb} -d {_fish(say(inner.help))}")
        for option in node.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -x -a {_fish(' '.join(option.offered))}" if option.offered else " -r" if option.value else ""
            lines.append(f"{here} {names}{value} -d {_fish(option.help)}")
        choices = [c for operand in node.operands for c in operand.choices]
        if choices:
            lines.append(f"{here} -f -a {_fish(' '.join(choices))}")
    return "\n".join([*lines, ""])


def _fish(text: str) -> str:
    """A word of fish: its quotes know two escapes."""
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[list[Node]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
