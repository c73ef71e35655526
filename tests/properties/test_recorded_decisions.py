"""Every policy's commands for one small trace, word for word: a change that claims to change nothing keeps them.

After a change that is meant to change decisions, record them again and read the difference:

    PYTHONPATH=tests python tests/properties/test_recorded_decisions.py --record
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from property_helpers import Log, run_watched

from weft.core.commands import Command, Preempt, Seat, Start, Stop, Tell, Unseat, WakeAt
from weft.core.reasons import Code, Reason
from weft.core.values import Cluster, JobSpec, nodes_of
from weft.policies.registry import POLICIES
from weft.sim.trace import TraceJob
from weft.sim.world import World

RECORDED = Path(__file__).with_name("recorded")
RECORDED_TEXTS = {
    Code.NEW_HOLDER: "{0} holds its device now, and nothing says that the two are good company",
    Code.BESIDE_ONLY: "beside {0}: {1:.3g} steps/s; how fast it is alone is not known",
}
"""Reasons whose text was changed later: decisions were recorded with these, and are still compared with them."""

CLUSTER = Cluster(nodes_of([(2, 4, "V100"), (1, 4, "K80")]))
WORLD = World("recorded", counts_only=False, preemption_s=30.0, speed={"V100": 1.0, "K80": 0.25})
SHARED = replace(
    WORLD,
    pause_s=1.0,
    memory={"V100": 100, "K80": 60},
    unknown_memory=((10, 20), (5, 40)),
    unknown_utilisation=((0.2, 1.0), (0.5, 1.5), (0.9, 2.0)),
)
"""For policies that let jobs share devices."""

PARAMETERS = {
    "las": {"quantum_s": 300.0},
    "fair": {"quantum_s": 300.0},
    "tiresias-l": {"thresholds": (1000.0, 4000.0), "promote_knob": 4.0},
    "tiresias-g": {"thresholds": (1000.0, 4000.0)},
    "srsf": {"bypass_limit_s": 1500.0},
}
"""Where the defaults would make for a dull trace."""

Rows = tuple[tuple[str, str, int, int, int, float, int, frozenset[str] | None], ...]

ROWS: Rows = (
    # id, tenant, arrival_s, duration_s, gang_size, skew, min_run_s, device types
    ("a", "ada", 0, 2400, 4, 0.0, 0, None),
    ("b", "bo", 0, 900, 2, 0.0, 0, None),
    ("c", "ada", 60, 300, 1, 0.0, 0, None),
    ("d", "cy", 120, 1800, 4, 1.5, 0, frozenset({"V100"})),
    ("e", "bo", 120, 600, 8, 0.1, 0, None),
    ("f", "ada", 200, 240, 3, 0.5, 400, None),
    ("g", "cy", 450, 75, 1, 0.0, 0, None),
    ("h", "ada", 600, 500, 2, 0.1, 0, frozenset({"K80"})),
    ("i", "bo", 700, 1200, 1, 0.0, 600, None),
    ("j", "cy", 1500, 30, 6, 1.5, 0, None),
    ("k", "ada", 1501, 400, 2, 0.0, 0, None),
    ("l", "bo", 3000, 60, 1, 0.0, 0, None),
)


SMALL = tuple((f"s{i}", "dee", 20 * i, 400 + 50 * i, 1, 0.0, 0, None) for i in range(8))
"""Where jobs share devices, these wait and sit down beside others."""


def jobs(rows: Rows = ROWS) -> list[TraceJob]:
    return [
        TraceJob(
            JobSpec(
                job_id,
                gang_size,
                tenant,
                device_types=types,
                declared_steps=float(duration_s),
                skew=skew,
                min_run_s=float(min_run_s),
                memory_bytes=30 * gang_size if job_id != "a" else None,
            ),
            float(arrival_s),
            float(duration_s),
        )
        for job_id, tenant, arrival_s, duration_s, gang_size, skew, min_run_s, types in rows
    ]


def recorded_text(reason: Reason) -> str:
    if reason.code in RECORDED_TEXTS:
        return RECORDED_TEXTS[reason.code].format(*reason.details)
    return str(reason)


def line_of(command: Command) -> str:
    match command:
        case Start():
            where = " ".join(f"n{node}:{mask:04b}" for node, mask in command.allocation)
            return f"start {command.job_id}/{command.generation} on {where}: {recorded_text(command.reason)}"
        case Preempt():
            return f"preempt {command.job_id}/{command.generation}: {recorded_text(command.reason)}"
        case Seat(seating=seating):
            where = " ".join(f"n{node}:{mask:04b}" for node, mask in seating.allocation)
            how = f"lane {seating.lane}" if seating.lane else "held back" if seating.is_throttled else "packed"
            return f"seat {command.job_id}/{command.generation} on {where} {how}: {recorded_text(command.reason)}"
        case Unseat():
            return f"unseat {command.job_id}/{command.generation}: {recorded_text(command.reason)}"
        case Tell():
            return f"tell {command.job_id}: {recorded_text(command.reason)}"
        case Stop():
            return f"stop {command.job_id}/{command.generation}"
        case WakeAt():
            return f"wake at {command.time_s:.3f}"


def text_of(log: Log) -> str:
    return "".join(f"{now:.3f} {line_of(command)}\n" for now, commands in log for command in commands)


def decisions(name: str) -> str:
    policy = POLICIES[name](**PARAMETERS.get(name, {}))
    rows, world = ((*ROWS, *SMALL), SHARED) if policy.share else (ROWS, WORLD)
    _, log = run_watched(jobs(rows), CLUSTER, policy, world)
    return text_of(log)


@pytest.mark.parametrize("name", POLICIES)
def test_decisions_are_as_recorded(name: str) -> None:
    path = RECORDED / f"{name}.txt"
    assert path.exists(), f"{name} is not recorded yet: python tests/properties/{Path(__file__).name} --record"
    assert decisions(name) == path.read_text(encoding="utf-8")


def test_nothing_is_recorded_for_a_policy_that_is_gone() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt")} <= set(POLICIES)


if __name__ == "__main__" and sys.argv[1:] == ["--record"]:
    RECORDED.mkdir(exist_ok=True)
    for policy in POLICIES:
        (RECORDED / f"{policy}.txt").write_text(decisions(policy), encoding="utf-8")
