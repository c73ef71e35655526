"""What a world says of jobs, devices and nodes, and what a file may say of a world."""

from __future__ import annotations

import pickle
import statistics
from itertools import islice
from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.core.values import Cluster, JobSpec, nodes_of
from weft.sim.colocation import Fitted, Occupant, Profile, Table, ThrottleEffect, rates_on
from weft.sim.world import World, load_world

GIB = 1 << 30
TYPED = Cluster(nodes_of([(1, 2, "V100"), (1, 2, "K80"), (1, 2, "TPU")]))


def world(tmp_path: Path, text: str) -> World:
    (tmp_path / "mine.toml").write_text(text)
    return load_world(str(tmp_path / "mine.toml"))


def test_the_default_world_knows_what_sharing_costs() -> None:
    default = load_world("default")
    assert (default.preemption_s, default.pause_s, default.measure_s, default.rate_noise) == (30.0, 1.0, 20.0, 0.02)
    assert default.memory_bytes("V100") == 16 * GIB
    assert default.memory_bytes("TPU") is None
    assert default.interference == Fitted(0.12)
    assert not list(default.outages(TYPED, 0, 1e9))


def test_in_the_ideal_world_nothing_costs_and_nothing_is_known_of_memory() -> None:
    ideal = load_world("ideal")
    assert (ideal.preemption_s, ideal.pause_s, ideal.rate_noise) == (0.0, 0.0, 0.0)
    assert ideal.memory_bytes("any") is None
    assert ideal.noise("j", 0, 1) == 1.0
    assert [node.memory_bytes for node in ideal.shape(TYPED).nodes] == [None]


def test_the_nodes_of_a_cluster_have_the_memory_that_the_world_knows_of() -> None:
    assert [node.memory_bytes for node in load_world("default").shape(TYPED).nodes] == [16 * GIB, 12 * GIB, None]


def test_a_resume_at_home_costs_no_more_than_one_elsewhere() -> None:
    assert World("mine", counts_only=False, preemption_s=5.0).pause_s == 5.0
    assert World("mine", counts_only=False, preemption_s=5.0, pause_s=9.0).pause_s == 5.0


def test_a_profile_is_the_same_each_time_and_another_with_another_seed() -> None:
    default = load_world("default")
    drawn = [default.profile(JobSpec(f"j{i}"), 0) for i in range(200)]
    assert drawn == [default.profile(JobSpec(f"j{i}"), 0) for i in range(200)]
    assert drawn != [default.profile(JobSpec(f"j{i}"), 1) for i in range(200)]
    assert {profile.persistent_bytes for profile in drawn} == {p for p, _ in default.unknown_memory}


def test_how_busy_a_job_is_says_nothing_of_its_memory() -> None:
    default = load_world("default")
    drawn = [default.profile(JobSpec(f"job-{i:04}"), 0) for i in range(2000)]
    seen = {(profile.utilisation, profile.weight, profile.persistent_bytes) for profile in drawn}
    assert len(seen) == len(default.unknown_utilisation) * len(default.unknown_memory)


def test_a_known_model_is_as_the_world_says(tmp_path: Path) -> None:
    mine = world(
        tmp_path,
        '[models."ResNet-18"]\nutilisation = 0.3\nmemory = ["1G", "2G"]\n'
        '[models."ResNet-18 (batch size 32)"]\nutilisation = [0.5, 2.0]\n',
    )
    profile = mine.profile(JobSpec("j", model="resnet18"), 0)
    assert (profile.utilisation, profile.weight) == (0.3, 1.0)
    assert (profile.persistent_bytes, profile.ephemeral_bytes) == (GIB, 2 * GIB)
    assert mine.profile(JobSpec("j", model="ResNet-18 (batch size 64)"), 0).utilisation == 0.3
    assert mine.profile(JobSpec("j", model="ResNet-18 (batch size 32)"), 0).weight == 2.0
    assert mine.profile(JobSpec("j", model="resnet50"), 0).utilisation == 1.0


def test_declared_memory_is_divided_and_not_doubted() -> None:
    profile = load_world("default").profile(JobSpec("j", memory_bytes=999), 0)
    assert profile.persistent_bytes + profile.ephemeral_bytes == 999
    assert 0 < profile.persistent_bytes < 999


def test_a_world_that_knows_nothing_holds_a_job_to_be_busy_and_its_memory_to_last() -> None:
    profile = World("bare", counts_only=False, preemption_s=0.0).profile(JobSpec("j", memory_bytes=10), 0)
    assert (profile.utilisation, profile.weight, profile.persistent_bytes, profile.ephemeral_bytes) == (1, 1, 10, 0)


def test_measured_rates_are_off_by_what_the_world_says(tmp_path: Path) -> None:
    noisy = world(tmp_path, "rate_noise = 0.1")
    factors = [noisy.noise("j", 0, serial) for serial in range(2000)]
    assert statistics.mean(factors) == pytest.approx(1.0, abs=0.01)
    assert statistics.stdev(factors) == pytest.approx(0.1, rel=0.1)
    assert factors[:3] == [noisy.noise("j", 0, serial) for serial in range(3)]


def test_nodes_fail_in_order_and_not_while_they_are_away(tmp_path: Path) -> None:
    failing = world(tmp_path, "[failures]\nmtbf_s = 1000\nrepair_s = 50")
    found = list(failing.outages(TYPED, 3, 100_000.0))
    assert found == sorted(found)
    assert found == list(failing.outages(TYPED, 3, 100_000.0)) != list(failing.outages(TYPED, 4, 100_000.0))
    back = {node.name: 0.0 for node in TYPED.nodes}
    for down_s, name, back_s in found:
        assert back[name] <= down_s < 100_000.0
        back[name] = back_s
    assert len(found) == pytest.approx(3 * 100_000 / 1050, rel=0.2)
    assert len(list(islice(failing.outages(TYPED, 3, float("inf")), 1000))) == 1000


def test_what_comes_of_holding_guests_back_is_the_worlds_to_say(tmp_path: Path) -> None:
    holder, guest = Occupant(Profile(0.5, 1.0, 1, 1)), Occupant(Profile(1.0, 1.0, 1, 1), is_throttled=True)
    mine = world(tmp_path, "held_back = {filled = 0.9}")
    assert mine.held_back == ThrottleEffect(0.9, 0.99)
    assert rates_on("any", [holder, guest], mine.interference, mine.held_back) == pytest.approx([0.99, 0.45])
    assert mine.parameters()["world.held_back"] == {"filled": 0.9, "beside": 0.99}


def test_pairs_are_read_from_a_file_beside_the_world(tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text('{"v100": {"a": {"null": 2.0, "a": [1.0, 1.0]}}}')
    mine = world(tmp_path, 'interference = "pairs.json"')
    assert isinstance(mine.interference, Table)
    assert mine.interference.fitted == Fitted(0.12)
    assert mine.parameters()["world.interference"].endswith("pairs.json")
    assert pickle.loads(pickle.dumps(mine)) == mine  # noqa: S301 - simulations in processes of their own get it so


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("pause_s = -1", "pause_s = -1 is wrong", "seconds"),
        ("pause_s = 31", "pause_s = 31.0 is wrong", "not more than preemption_s"),
        ("measure_s = true", "measure_s = True is wrong", "seconds"),
        ("rate_noise = 1.5", "rate_noise = 1.5 is wrong", "from 0 to 1"),
        ("interference = 3", "interference = 3 is wrong", "contention"),
        ("interference = {contention = -1}", "interference = {'contention': -1} is wrong", "contention"),
        ('interference = "none.json"', "none.json cannot be read", "JSON"),
        ('memory.V100 = "16 apples"', "[memory] V100 = '16 apples' is not a size", '"16G"'),
        ("memory.V100 = 0", "[memory] V100 = 0 is not a size", '"16G"'),
        ("models.x.utilisation = 1.5", "models = {'x': {'utilisation': 1.5}} is wrong", "at most 1"),
        ('models.x.memory = ["1G"]', "models = {'x': {'memory': ['1G']}} is wrong", "ephemeral"),
        ("models.x.speed = 1", "models = {'x': {'speed': 1}} is wrong", "utilisation"),
        ("unknown.utilisation = [0]", "unknown = {'utilisation': [0]} is wrong", "above 0"),
        ("unknown.memory = [1]", "unknown = {'memory': [1]} is wrong", "ephemeral"),
        ("unknown.memory = 1", "unknown = {'memory': 1} is wrong", "a list"),
        ("held_back.filled = 0", "held_back = {'filled': 0} is wrong", "above 0"),
        ("held_back.duty = 1", "held_back = {'duty': 1} is wrong", "beside"),
        ("failures.mtbf = 1", "failures = {'mtbf': 1} is wrong", "mtbf_s"),
        ("measured_s = 1", "unknown key measured_s", "did you mean measure_s?"),
    ],
)
def test_a_wrong_value_is_told_with_what_it_should_be(tmp_path: Path, line: str, error: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        world(tmp_path, line)
    assert error in refused.value.message
    assert hint in refused.value.hint
