"""A hint names a command that can be typed as it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from livehome import Live

import weft
from weft.cli.main import VERBS
from weft.cli.main import weft as command

SOURCES = Path(weft.__file__).parent
NAMED = re.compile(rf"\bweft ({'|'.join(VERBS)})\b([^;:,.)\n]*)")
OPTION = re.compile(r" --[a-z-]+[ =](\{[^}]*\}|[A-Z]+)")
ARGUMENT = re.compile(r"\{[^}]*\}|\b[A-Z]{2,}|\b[0-9]+")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that people may see: no docstrings. What is put into a text stands in braces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    left_out |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{0}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def needs_argument(verb: str) -> bool:
    found = command.get_command(click.Context(command), verb)
    assert found
    return any(isinstance(each, click.Argument) and each.required for each in found.params)


NEEDY = [verb for verb in VERBS if needs_argument(verb)]


def incomplete(text: str) -> list[str]:
    return [
        match[0]
        for match in NAMED.finditer(text)
        if match[1] in NEEDY and not ARGUMENT.search(OPTION.sub("", match[2])) and " -- " not in match[2]
    ]


def test_what_is_told_of_a_verb_that_needs_an_id_names_one() -> None:
    assert {"status", "why", "logs", "cancel", "hold", "release"} <= set(NEEDY)
    assert incomplete("weft logs --task {0}")
    assert incomplete("see weft status")
    assert not incomplete("weft logs --task {0} {0}")
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {told}"
        for path in SOURCES.rglob("*.py")
        for line, text in texts(path)
        for told in incomplete(text)
    ]
    assert not found


@pytest.mark.parametrize(
    "words",
    [["queu"], ["status", "999999"], ["why", "999999"], ["cancel", "999999"], ["submit", "--gpus", "999", "--", "true"],
     ["logs", "999999"], ["status"], ["submit"], ["run", "--time", "0", "--", "true"], ["hold", "x"]],
)  # fmt: skip
def test_every_refusal_has_a_hint_and_its_commands_are_complete(live: Live, words: list[str]) -> None:
    done = live.weft(*words)
    assert done.returncode
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert not incomplete(hint.replace(" --help", " ID"))


def test_the_hints_about_a_job_name_that_job(live: Live) -> None:
    job_id = live.submit("--ntasks", "2", "--", "sh", "-c", "exit $RANK")
    live.is_("FAILED", job_id)
    assert live.job(job_id)["reason"] == f"rank 1 ended with exit code 1: weft logs --task 1 {job_id}"
    assert live.weft("cancel", job_id).stderr.endswith(f"hint: weft status {job_id}\n")
