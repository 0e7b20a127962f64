#!/usr/bin/env python3
"""Writes the man pages and the completions of this folder from what the programs say of themselves under --help.

Usage: make_manual.py [--check] [BIN]. BIN is the folder of compilectl and preheatd (default build/release/bin).
--check writes nothing and fails if a file is not what would be written.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES = ("compilectl.1", "preheatd.8", "compilectl.bash", "_compilectl")

# What completes the value of a flag, by the word that --help has for it.
FILES = {"FILE"}
FOLDERS = {"FOLDER"}
WORDS = {
    "MODE": ["fast", "tuned", "background"],
    "TARGET": ["cpu", "cuda", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_80", "cuda:sm_90"],
    "BOOLEAN": ["true", "false"],
}

EXIT_STATUS = [
    ("0", "done"),
    ("1", "something failed: an item, a verification, an unknown key, a missing bucket under --check"),
    ("2", "usage or invalid input"),
    ("3", "the server is unreachable, or did not answer in time"),
    ("4", "refused: identity or quota"),
]
ENVIRONMENT = [
    ("PREHEAT_SERVER", "HOST:PORT of preheatd, unless --server says"),
    ("PREHEAT_TOKEN_FILE", "file with the bearer token"),
    ("PREHEAT_NAMESPACE", "the namespace of requests"),
    ("PREHEAT_JOB_ID", "the job that pins belong to; else TORCHELASTIC_RUN_ID or SLURM_JOB_ID"),
    ("PREHEAT_CACHE_DIR", "the local cache; default ~/.cache/preheat"),
    ("COLUMNS", "the width that tables keep to; on a terminal its own, into a file none"),
]
EXAMPLES = [
    ("compilectl server start --data-dir /tmp/preheat", "a server on this machine"),
    ("compilectl warm --shapes buckets.yaml --check", "in CI: fails if a job would have to compile"),
    ("compilectl explain bert.pt2 --dim seq=128 --html report.html", "what became of a model, as a page"),
    ("compilectl rm --older-than 30d && compilectl gc", "what nobody used for a month"),
]


@dataclass
class Option:
    names: list[str]  # "-q", "--quiet"; one without a dash for a positional
    value: str  # "FILE"; empty for a switch
    default: str
    text: str
    required: bool = False


@dataclass
class Command:
    name: str  # "compilectl server start"
    text: str
    options: list[Option] = field(default_factory=list)
    positionals: list[Option] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    @property
    def word(self) -> str:
        return self.name.split()[-1]


def read_option(left: str, text: str) -> Option:
    names, _, value = left.partition(" ")
    required = value.endswith("REQUIRED")
    value = value.removesuffix("REQUIRED").strip().removesuffix("...").strip()
    value, _, default = value.partition("=") if not re.match(r"NAME=", value) else (value, "", "")
    return Option(names.split(","), value, default, text, required)


def parse(name: str, help_text: str) -> tuple[Command, list[tuple[str, str]]]:
    """The command, and name and text of its subcommands."""
    command, section, words = Command(name, ""), "", []
    lines = help_text.split("\n")
    items: dict[str, list[list[str]]] = {"Options": [], "Positionals": [], "Subcommands": []}
    for line in lines:
        if line.startswith("Usage:"):
            section = "Usage"
        elif line.rstrip(":") in items and line.endswith(":"):
            section = line.rstrip(":")
        elif not section and line.strip():
            command.text = line.strip()
        elif section in items and line.startswith("  ") and not line.startswith("   "):
            items[section].append(re.split(r"\s{2,}", line.strip(), maxsplit=1) if len(line) > 2 else [""])
        elif section in items and line.strip():
            items[section][-1].append(line.strip())
    for parts in items["Options"]:
        left, text = split_item(parts)
        command.options.append(read_option(left, text))
    for parts in items["Positionals"]:
        left, text = split_item(parts)
        command.positionals.append(read_option(left, text))
    words = [split_item(parts) for parts in items["Subcommands"]]
    return command, words


def split_item(parts: list[str]) -> tuple[str, str]:
    left = parts[0]
    rest = " ".join(parts[1:])
    # A long left side leaves one space before the text, when it just fits its column.
    if not rest:
        match = re.match(r"(\S+(?: [A-Z]\S*)*?) ([a-z0-9].*)", left)
        return (match[1], match[2]) if match else (left, "")
    return left, rest


def describe(program: Path, words: tuple[str, ...] = ()) -> Command:
    environment = {**os.environ, "HOME": "~", "XDG_DATA_HOME": ""}
    done = subprocess.run(
        [program, *words, "--help"], env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    command, below = parse(" ".join((program.name, *words)), done.stdout)
    for word, text in below:
        made = describe(program, (*words, word))
        made.text = text
        command.commands.append(made)
    return command


# --- Man pages ---


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def roff_option(option: Option) -> str:
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
    value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
    notes = [option.text] if option.text else []
    if option.required:
        notes.append("Required.")
    if option.default:
        notes.append(f"Default: {option.default}")
    return f".TP\n{names}{value}\n{roff('. '.join(note.rstrip('.') for note in notes) + '.')}\n"


def synopsis(command: Command) -> str:
    words = [f"\\fB{roff(command.name)}\\fR", "[\\fIOPTIONS\\fR]"]
    for option in command.positionals:
        word = f"\\fI{roff(option.names[0])}\\fR"
        words.append(word if option.required else f"[{word}]")
    if command.commands:
        words.append("\\fICOMMAND\\fR")
    return " ".join(words)


def leaves(command: Command) -> list[Command]:
    return [leaf for below in command.commands for leaf in (leaves(below) or [below])]


def definition_list(rows: list[tuple[str, str]]) -> str:
    return "".join(f".TP\n\\fB{roff(name)}\\fR\n{roff(text)}\n" for name, text in rows)


def man_compilectl(command: Command) -> str:
    page = f'.TH COMPILECTL 1 "" Preheat "Preheat"\n.SH NAME\ncompilectl \\- {roff("the command line of Preheat")}\n'
    page += f".SH SYNOPSIS\n{synopsis(command)}\n.SH DESCRIPTION\n{roff(command.text)}\n"
    page += (
        "A MODEL is an archive of torch.export (.pt2) or a bundle of preheat.export (.preheat). A KEY may be given by\n"
    )
    page += "its first digits, six or more. Progress goes to standard error.\n"
    page += ".SH OPTIONS\nBefore or behind the command.\n" + "".join(map(roff_option, command.options))
    page += ".SH COMMANDS\n"
    for leaf in leaves(command):
        page += f".SS {roff(leaf.name.partition(' ')[2])}\n{synopsis(leaf)}\n.PP\n{roff(leaf.text)}\n"
        page += "".join(
            roff_option(option) for option in leaf.positionals + leaf.options if "--help" not in option.names
        )
    page += ".SH EXIT STATUS\n" + definition_list(EXIT_STATUS)
    page += ".SH ENVIRONMENT\n" + definition_list(ENVIRONMENT)
    page += ".SH EXAMPLES\n" + definition_list(EXAMPLES)
    return page + ".SH SEE ALSO\n.BR preheatd (8)\n"


def settings() -> dict[str, str]:
    """What deploy/preheatd.yaml says of each setting: the comment above it."""
    texts: dict[str, str] = {}
    comment: list[str] = []
    for line in (ROOT / "deploy" / "preheatd.yaml").read_text().split("\n"):
        if line.startswith("# "):
            comment.append(line[2:])
        elif match := re.match(r"(\w+):", line):
            texts[match[1]] = " ".join(comment)
        if not line.startswith("#"):
            comment = []
    return texts


def man_preheatd(command: Command) -> str:
    page = '.TH PREHEATD 8 "" Preheat "Preheat"\n.SH NAME\npreheatd \\- the server of Preheat\n'
    page += ".SH SYNOPSIS\n\\fBpreheatd\\fR [\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fIOPTIONS\\fR]\n"
    page += f".SH DESCRIPTION\n{roff(command.text.partition(': ')[2].capitalize())}.\n"
    page += "Every setting is a flag and a field of the file; flags win. On SIGTERM and SIGINT it takes no new work,\n"
    page += "lets running compiles finish, and ends with status 0.\n.SH OPTIONS\n"
    texts = settings()
    for option in command.options:
        name = option.names[-1].removeprefix("--").replace("-", "_")
        option.text = texts.pop(name, option.text)
        page += roff_option(option)
    assert not texts, f"deploy/preheatd.yaml has settings without a flag: {texts}"
    page += ".SH FILES\n" + definition_list(
        [
            ("/etc/preheat/preheatd.yaml", "settings, where the systemd unit reads them"),
            ("data_dir/store", "artifacts"),
            ("data_dir/worker-N.log", "what worker N said"),
            ("data_dir/server.json", "pid and ports, while the server runs"),
        ]
    )
    page += ".SH EXIT STATUS\n" + definition_list(
        [("0", "it was told to end"), ("1", "it cannot start: the store, a port"), ("2", "a flag or the file is wrong")]
    )
    return page + ".SH SEE ALSO\n.BR compilectl (1)\n"


# --- Completions ---


def flags_of(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names]


def values_of(command: Command) -> dict[str, str]:
    """Flag -> the word for its value, for those that take one."""
    return {name: option.value for option in command.options if option.value for name in option.names}


def takes(command: Command) -> str:
    """What stands behind the flags: "model", "key", both, or nothing."""
    names = "|".join(option.names[0] for option in command.positionals)
    return " ".join(kind for kind in ("model", "key") if kind.upper() in names)


LIST_KEYS = "ls 2>/dev/null | awk '$1 ~ /^[0-9a-f]{12}$/ { print $1 }'"

BASH = """\
# Completion of compilectl for bash. Written by make_manual.py from --help.
# Install as /usr/share/bash-completion/completions/compilectl, or source it.

_compilectl_keys() {  # of the server that the line names; none if it does not answer at once
  compilectl --quiet --timeout 2 "${_compilectl_server[@]}" @LIST_KEYS@
}

_compilectl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command= words= takes= i
  local globals="@GLOBALS@"
  _compilectl_server=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --server) _compilectl_server=(--server "${COMP_WORDS[i+1]}"); i=$((i + 1)) ;;
      @TAKE_VALUES@) i=$((i + 1)) ;;
      -*) ;;
@FIND_COMMAND@    esac
  done
  case $previous in
@VALUES@  esac
  case $command in
@COMMANDS@  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ "${current:0:1}" != - ] || return
  case $takes in
    *key*) COMPREPLY+=($(compgen -W "$(_compilectl_keys)" -- "$current")) ;;
  esac
  case $takes in
    *model*)
      COMPREPLY+=($(compgen -d -S / -- "$current"))
      COMPREPLY+=($(for ending in pt2 preheat pt; do compgen -f -X "!*.$ending" -- "$current"; done)) ;;
  esac
}
complete -o filenames -F _compilectl compilectl
"""


def bash_values(word: str) -> str:
    """What completes a value of that kind."""
    if word in FILES:
        return 'COMPREPLY=($(compgen -f -- "$current"))'
    if word in FOLDERS:
        return 'COMPREPLY=($(compgen -d -- "$current"))'
    if word in WORDS:
        return f'COMPREPLY=($(compgen -W "{" ".join(WORDS[word])}" -- "$current"))'
    return ":"


def bash(command: Command) -> str:
    shared = flags_of(command)
    every = {one.name: one for one in [command, *command.commands, *leaves(command)]}
    values = {flag: word for one in every.values() for flag, word in values_of(one).items()}
    commands = find = told = ""
    for name, one in every.items():
        words = [below.word for below in one.commands] + [flag for flag in flags_of(one) if flag not in shared]
        text = " ".join([*words, "$globals"])
        commands += f'    "{name.partition(" ")[2]}") words="{text}"; takes="{takes(one)}" ;;\n'
        if one.commands:
            prefix = name.partition(" ")[2]
            names = "|".join(below.word for below in one.commands)
            found = f"{prefix} ${{COMP_WORDS[i]}}".lstrip()
            find += f'      {names}) [ "$command" != "{prefix}" ] || command="{found}" ;;\n'
    for word in sorted(set(values.values())):
        flags = "|".join(sorted(flag for flag, value in values.items() if value == word))
        told += f"    {flags}) {bash_values(word)}; return ;;\n"
    parts = {"LIST_KEYS": LIST_KEYS, "GLOBALS": " ".join(shared), "TAKE_VALUES": "|".join(sorted(values))}
    parts |= {"FIND_COMMAND": find, "VALUES": told, "COMMANDS": commands}
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], BASH)


ZSH = """\
#compdef compilectl
# Completion of compilectl for zsh. Written by make_manual.py from --help.
# Install as _compilectl in a folder of $fpath.

_compilectl_models() { _files -g '*.(pt2|preheat|pt)(-.)' }

_compilectl_keys() {
  local -a keys
  keys=(${(f)"$(compilectl --quiet --timeout 2 @LIST_KEYS@)"})
  compadd -a keys
}

_compilectl_either() { _compilectl_keys; _compilectl_models }

"""


def zsh_option(option: Option) -> str:
    """One specification of _arguments."""
    text = re.sub(r"([\[\]:'\\])", lambda match: "" if match[1] in "'\\" else "\\" + match[1], option.text)
    action = ""
    if option.value in FILES:
        action = f":{option.value}:_files"
    elif option.value in FOLDERS:
        action = f":{option.value}:_files -/"
    elif option.value in WORDS:
        choices = " ".join(word.replace(":", "\\:") for word in WORDS[option.value])
        action = f":{option.value}:({choices})"
    elif option.value:
        action = f":{re.sub(r'[^A-Z]', ' ', option.value).split()[0]}: "
    repeat = "*" if "(repeatable)" in option.text else ""
    return " ".join(f"'{repeat}{name}[{text}]{action}'" for name in option.names)


def zsh_command(command: Command, globals_: list[Option]) -> str:
    name = "_" + re.sub(r"\W", "_", command.name)
    specs = [zsh_option(option) for option in command.options + [o for o in globals_ if "--help" not in o.names]]
    if command.commands:
        listed = " ".join(
            f"'{below.word}:{below.text.replace(':', ' -').replace(chr(39), '')}'" for below in command.commands
        )
        cases = "".join(
            f"        {below.word}) _{re.sub(r'[^a-zA-Z0-9]', '_', below.name)} ;;\n" for below in command.commands
        )
        body = "  local context state line\n  local -a commands\n"
        body += f"  commands=({listed})\n  _arguments -C \\\n    " + " \\\n    ".join(specs)
        body += " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n"
        body += "    command) _describe command commands ;;\n    argument)\n      case $words[1] in\n" + cases
        body += "      esac ;;\n  esac\n"
    else:
        kinds = takes(command)
        if kinds:
            specs.append(
                "'1:"
                + {"model": "model:_compilectl_models", "key": "key:_compilectl_keys"}.get(
                    kinds, "model or key:_compilectl_either"
                )
                + "'"
            )
        body = "  _arguments \\\n    " + " \\\n    ".join(specs) + "\n"
    return f"{name}() {{\n{body}}}\n\n"


def zsh(command: Command) -> str:
    out = ZSH.replace("@LIST_KEYS@", LIST_KEYS)
    for one in [*leaves(command), *(below for below in command.commands if below.commands)]:
        out += zsh_command(one, command.options)
    return out + zsh_command(command, []) + '_compilectl "$@"\n'


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "release" / "bin"
    compilectl, preheatd = describe(folder / "compilectl"), describe(folder / "preheatd")
    texts = (man_compilectl(compilectl), man_preheatd(preheatd), bash(compilectl), zsh(compilectl))
    stale = [
        page
        for page, text in zip(PAGES, texts, strict=True)
        if not (HERE / page).exists() or (HERE / page).read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(f"{HERE / page} is not what the programs say: run make_manual.py", file=sys.stderr)
        return 1 if stale else 0
    for page, text in zip(PAGES, texts, strict=True):
        (HERE / page).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
