"""How jobs that share a device slow each other."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import InputError
from weft.sim.colocation import Fitted, Interference, Profile, Table, read_table

PROFILES = st.builds(
    Profile,
    utilisation=st.floats(0.01, 1.0),
    weight=st.floats(0.05, 20.0),
    model=st.sampled_from(["A", "B", "C", "unknown"]),
)
GROUPS = st.lists(PROFILES, min_size=1, max_size=5)


def gavels(path: Path, pairs: dict[tuple[str, str], tuple[float, float]], alone_hz: float = 10.0) -> Path:
    jobs: dict[str, dict[str, object]] = {}
    for (a, b), (rate, others) in pairs.items():
        for one, other, both in ((a, b, [rate, others]), (b, a, [others, rate])):
            beside = jobs.setdefault(f"('{one}', 1)", {"null": alone_hz})
            beside[f"('{other}', 1)"] = [each * alone_hz for each in both]
    path.write_text(json.dumps({"v100": jobs}))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    pairs = {("A", "B"): (0.8, 0.6), ("A", "A"): (0.5, 0.5), ("B", "C"): (0.0, 0.0)}
    return read_table(gavels(tmp_path / "pairs.json", pairs), Fitted(0.2))


def test_who_is_alone_is_not_slowed() -> None:
    assert Fitted(0.5).rates("any", [Profile(0.3)]) == (1.0,)


def test_two_that_leave_the_device_idle_cost_each_other_only_the_contention() -> None:
    assert Fitted(0.1).rates("any", [Profile(0.4), Profile(0.5)]) == pytest.approx((1 / 1.05, 1 / 1.04))
    assert Fitted(0.0).rates("any", [Profile(0.4), Profile(0.5)]) == (1.0, 1.0)


def test_equals_on_a_full_device_share_it_equally() -> None:
    assert Fitted(0.0).rates("any", 4 * [Profile(1.0)]) == pytest.approx(4 * (0.25,))


def test_who_asks_for_less_than_its_share_gets_it_and_the_others_get_the_rest() -> None:
    assert Fitted(0.0).rates("any", [Profile(1.0), Profile(0.2)]) == pytest.approx((0.8, 1.0))


def test_a_full_device_is_shared_by_weight() -> None:
    assert Fitted(0.0).rates("any", [Profile(1.0, 3.0), Profile(1.0, 1.0)]) == pytest.approx((0.75, 0.25))


@given(group=GROUPS, contention=st.floats(0.0, 3.0))
def test_a_device_gives_no_more_than_it_has_and_each_rate_is_above_0_and_at_most_1(
    group: list[Profile], contention: float
) -> None:
    rates = Fitted(contention).rates("any", group)
    assert all(0.0 < rate <= 1.0 for rate in rates)
    assert sum(rate * each.utilisation for rate, each in zip(rates, group, strict=True)) <= 1.0 + 1e-9


def _check_nobody_is_helped(interference: Interference, group: list[Profile]) -> None:
    grown = [interference.rates("V100", group[:size]) for size in range(1, len(group) + 1)]
    for before, after in pairwise(grown):
        assert all(now <= then + 1e-9 for then, now in zip(before, after, strict=False))


@given(group=GROUPS, contention=st.floats(0.0, 3.0))
def test_a_further_job_never_helps_anybody(group: list[Profile], contention: float) -> None:
    _check_nobody_is_helped(Fitted(contention), group)


PAIRS = {"v100": {"a": {"b": 0.8, "a": 0.5}, "b": {"a": 0.6}}}


@given(group=GROUPS)
def test_a_further_job_never_helps_anybody_in_a_table_either(group: list[Profile]) -> None:
    _check_nobody_is_helped(Table("pairs", PAIRS, Fitted(0.2)), group)


def test_a_measured_pair_is_as_measured_whichever_comes_first(table: Table) -> None:
    a, b = Profile(model="A"), Profile(model="B")
    assert table.rates("V100", [a, b]) == pytest.approx((0.8, 0.6))
    assert table.rates("V100", [b, a]) == pytest.approx((0.6, 0.8))


def test_several_measured_ones_slow_a_job_one_after_the_other(table: Table) -> None:
    a, b = Profile(model="a"), Profile(model="b")
    assert table.rates("V100", [a, a, b])[0] == pytest.approx(0.5 * 0.8)


@pytest.mark.parametrize(("kind", "models"), [("V100", "BC"), ("V100", "AX"), ("K80", "AB")])
def test_what_was_not_measured_is_as_fitted(table: Table, kind: str, models: str) -> None:
    group = [Profile(0.9, model=models[0]), Profile(0.7, model=models[1])]
    assert table.rates(kind, group) == pytest.approx(Fitted(0.2).rates(kind, group))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a table of measured pairs"),
        ('{"v100": {"x": {}}}', "is not a table of measured pairs"),
        ('{"v100": {"x": {"null": 1.0}}}', "has no measured pair"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "pairs.json").write_text(text)
    with pytest.raises(InputError, match=error):
        read_table(tmp_path / "pairs.json", Fitted())
