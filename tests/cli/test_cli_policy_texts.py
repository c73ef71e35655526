from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import Weft

from weft.policies.loader import NamedPolicy, policies_asked
from weft.policies.registry import POLICIES


def asked(text: str) -> NamedPolicy:
    (named,) = policies_asked(text)
    return named


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("las", {"quantum_s": 600.0, "pack_limit": 0.2, "bypass_limit_s": None}),
        ("las:quantum_s=60:bypass_limit_s=1e4", {"quantum_s": 60.0, "pack_limit": 0.2, "bypass_limit_s": 1e4}),
        ("las:bypass_limit_s=off", {"quantum_s": 600.0, "pack_limit": 0.2, "bypass_limit_s": None}),
        ("mine.py:ByName", {"backwards": False}),
        ("mine.py:ByName:backwards=yes", {"backwards": True}),
        ("mine.py:composed", {"strict": True, "note": None}),
        ("mine.py:composed:strict=false:note=hello", {"strict": False, "note": "hello"}),
        ("mine.py:READY", {}),
        ("mine.py:Handmade:share=2", {"share": 2.0}),
    ],
)
def test_a_text_gives_every_parameter_a_value(text: str, parameters: dict[str, Any]) -> None:
    assert dict(asked(text).parameters) == parameters


def test_lists_are_written_with_slashes() -> None:
    named = asked("tiresias-l:thresholds=300/1200/4800:promote_knob=8")
    assert named.arguments == {"thresholds": (300.0, 1200.0, 4800.0), "promote_knob": 8.0}
    assert named.parameters["thresholds"] == [300.0, 1200.0, 4800.0]


def test_a_long_list_comes_from_a_file_and_is_shown_by_its_name() -> None:
    Path("times.csv").write_text("duration\n" + "\n".join(map(str, range(1, 1002))) + "\n")
    named = asked("tiresias-g:history=times.csv")
    assert named.arguments["history"] == tuple(range(1, 1002))
    assert named.parameters["history"] == "times.csv (1001 samples)"


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_built_afresh_and_tells_its_parameters(name: str) -> None:
    named = asked(name)
    first, second = named.build(), named.build()
    assert first is not second
    assert first.parameters == named.parameters  # type: ignore[attr-defined]
    json.dumps(dict(named.parameters), allow_nan=False)


def test_a_ready_made_object_is_not_used_up_by_a_run(weft: Weft) -> None:
    words = ["few.csv", "--cluster", "2x2", "--policy", "mine.py:READY,mine.py:READY,backfill", "--json", "-"]
    runs = json.loads(weft("simulate", *words).stdout)["runs"]
    assert len({run["mean_jct_s"] for run in runs}) == 1


def test_ones_own_policy_decides_and_is_called_as_it_was_asked_for(weft: Weft) -> None:
    Path("same.csv").write_text("arrival,duration,gang\n" + "0,100,1\n" * 3)
    words = ["--policy", "mine.py:ByName,mine.py:ByName:backwards=true", "--csv", "jobs.csv", "--json", "-"]
    runs = json.loads(weft("simulate", "same.csv", "--cluster", "1x1", *words).stdout)["runs"]
    assert [run["policy"] for run in runs] == ["mine.py:ByName", "mine.py:ByName:backwards=true"]
    finishes = [line.split(",")[6] for line in Path("jobs.csv").read_text().splitlines()[1:]]
    assert finishes == ["100.0", "200.0", "300.0", "300.0", "200.0", "100.0"]
