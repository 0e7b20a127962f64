"""The man pages and the completions say what the programs say of themselves, and every command and flag completes."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from service import BUILD, COMPILECTL, ROOT

MANUAL = ROOT / "deploy" / "manual"


def help_of(*words: str) -> str:
    return subprocess.run([COMPILECTL, *words, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout


def commands(*words: str) -> dict[tuple[str, ...], set[str]]:
    """Every command, and the words that may stand behind it: subcommands and flags."""
    text = help_of(*words)
    _, _, below = text.partition("Subcommands:\n")
    names = re.findall(r"^  (\S+)", below, re.MULTILINE)
    flags = set(re.findall(r"(?:^  |,)(--?[a-z][a-z-]*)", text.partition("Subcommands:")[0], re.MULTILINE))
    found = {words: flags | set(names)}
    for name in names:
        found |= commands(*words, name)
    return found


@pytest.fixture(scope="module")
def every_command() -> dict[tuple[str, ...], set[str]]:
    found = commands()
    assert len(found) > 18 and "--shapes" in found["warm",] and "start" in found["server",]
    return found


def test_pages_are_what_the_programs_say() -> None:
    done = subprocess.run(
        [sys.executable, MANUAL / "make_manual.py", "--check", BUILD / "bin"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_pages_are_well_formed(every_command: dict[tuple[str, ...], set[str]]) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    for page in ("compilectl.1", "preheatd.8"):
        done = subprocess.run(
            ["man", "--warnings", "--local-file", MANUAL / page],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0 and done.stderr == "", done.stderr
        if page == "compilectl.1":
            for words, completions in every_command.items():
                assert " ".join(words) in done.stdout
                assert all(flag in done.stdout for flag in completions)


def bash_completions(folder: pathlib.Path, *words: str) -> set[str]:
    script = f"""
source {MANUAL / "compilectl.bash"}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_compilectl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script, "bash", "compilectl", *words],
        cwd=folder,
        env={"PATH": f"{BUILD / 'bin'}:/usr/bin:/bin", "PREHEAT_SERVER": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_everything(every_command: dict[tuple[str, ...], set[str]], tmp_path: pathlib.Path) -> None:
    for words, completions in every_command.items():
        names = {completion for completion in completions if not completion.startswith("-")}
        assert names <= bash_completions(tmp_path, *words, "")
        assert completions - names <= bash_completions(tmp_path, *words, "-")
        # Flags before a command do not hide it.
        assert names <= bash_completions(tmp_path, "--server", "h:1", *words, "")


def test_bash_completes_values(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.pt2").touch()
    (tmp_path / "shapes.yaml").touch()
    (tmp_path / "folder").mkdir()
    assert bash_completions(tmp_path, "warm", "--mode", "t") == {"tuned"}
    assert bash_completions(tmp_path, "warm", "--shapes", "s") == {"shapes.yaml"}
    assert bash_completions(tmp_path, "compile", "") >= {"model.pt2", "folder/"}
    assert "shapes.yaml" not in bash_completions(tmp_path, "compile", "")
    assert bash_completions(tmp_path, "server", "start", "--data-dir", "") == {"folder"}
    assert bash_completions(tmp_path, "compile", "--dim", "") == set()


# Presses Tab behind each line in a shell of its own; the compadd in front of zsh's prints what would be listed.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= PS2= RPS1=; unset zle_bracketed_paste; setopt no_beep; cd $FOLDER"
zpty -w shell "fpath=($MANUAL \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell 'compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  local hit; for hit in $hits; do print -r -- "HIT $hit"; done
  builtin compadd "$@"
}'
zpty -w shell 'next() { BUFFER=; print -r -- "END-OF""-LIST" }; zle -N next'
zpty -w shell 'bindkey "^X" next; bindkey "^I" complete-word'
zpty -w shell 'print -r -- READY''-NOW'
zpty -r -m shell seen '*READY-NOW*'
for line in "${(f)TYPED}"; do
  zpty -w -n shell "$line"$'\t\x18'
  zpty -r -m shell seen '*END-OF-LIST*' || break
  print -r -- "LINE $line"
  print -r -- "$seen"
done
zpty -d shell
"""


def zsh_completions(folder: pathlib.Path, lines: list[str]) -> dict[str, set[str]]:
    environment = {
        "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin",
        "HOME": str(folder),
        "MANUAL": str(MANUAL),
        "FOLDER": str(folder),
        "TYPED": "\n".join(lines),
        "PREHEAT_SERVER": "127.0.0.1:1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["zsh", "-f", "-c", ZSH], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    found: dict[str, set[str]] = {}
    for text in done.stdout.split("LINE ")[1:]:
        line, _, listed = text.partition("\n")
        found[line] = set(re.findall(r"HIT (\S+)", listed))
    assert set(found) == set(lines), done.stdout + done.stderr
    return found


def test_zsh_completes_everything(every_command: dict[tuple[str, ...], set[str]], tmp_path: pathlib.Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    wanted = {}
    for words, completions in every_command.items():
        line = " ".join(("compilectl", *words))
        names = {completion for completion in completions if not completion.startswith("-")}
        if names:
            wanted[f"{line} "] = names
        wanted[f"{line} --"] = {flag for flag in completions if flag.startswith("--")}
    found = zsh_completions(tmp_path, list(wanted))
    for line, completions in wanted.items():
        assert completions <= found[line], line
