"""weft.toml: what is wrong with it is said with its place and a hint; a flag goes before a variable before the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.system.settings import DEFAULT_POLICY, Settings, load_settings

WRONG = {
    "not TOML": ("policy = ", "is not TOML", "policy"),
    "a line and a column": ('policy = "fifo"\nlog_days = = 3\n', "line 2, column", "log_days"),
    "a key that is not there": ('polcy = "fifo"', "unknown key polcy", "policy"),
    "a policy that is a number": ("policy = 3", "policy = 3 is wrong", "a policy, as in weft policies"),
    "devices that are a number": ("devices = 4", "devices = 4 is wrong", '"cpu=4"'),
    "a grace below zero": ("stop_grace_s = -1", "stop_grace_s = -1 is wrong", "0 or more"),
    "a grace that is a truth": ("pause_grace_s = true", "pause_grace_s = True is wrong", "0 or more"),
    "a start-up that is a text": ('startup_s = "2m"', "startup_s = '2m' is wrong", "0 or more"),
    "a grace without end": ("pause_grace_s = inf", "pause_grace_s = inf is wrong", "0 or more"),
    "no number at all": ("log_days = nan", "log_days = nan is wrong", "0 or more"),
    "no patience at all": ("silent_s = 0", "silent_s = 0 is wrong", "above 0"),
    "a snapshot of nothing": ("snapshot_rows = 0", "snapshot_rows = 0 is wrong", "1 or more"),
    "half a row": ("snapshot_rows = 2.5", "snapshot_rows = 2.5 is wrong", "a whole number"),
    "a fence of another kind": ('fence = "wall"', "fence = 'wall' is wrong", '"cgroup"'),
    "a fence that is a list": ("fence = []", "fence = [] is wrong", '"scan"'),
    "strict in words": ('strict_memory = "yes"', "strict_memory = 'yes' is wrong", "true or false"),
    "strict in numbers": ("strict_memory = 1", "strict_memory = 1 is wrong", "true or false"),
    "days in words": ('log_days = "many"', "log_days = 'many' is wrong", "0 or more"),
    "tenants that are a list": ("tenants = []", "tenants = [] is wrong", "quota"),
    "a tenant that is a number": ("tenants.vision = 4", "[tenants.vision] = 4 is wrong", "quota = N"),
    "a tenant without a quota": ("[tenants.vision]", "[tenants.vision] = {} is wrong", "quota = N"),
    "a quota below zero": ("[tenants.vision]\nquota = -1", "[tenants.vision]", "quota = N"),
    "a quota in halves": ("[tenants.vision]\nquota = 1.5", "[tenants.vision]", "quota = N"),
    "a quota that is a truth": ("[tenants.vision]\nquota = true", "[tenants.vision]", "quota = N"),
    "something beside the quota": ("[tenants.vision]\nquota = 1\ncolour = 2", "[tenants.vision]", "quota = N"),
    "a key twice": ('policy = "fifo"\npolicy = "srtf"', "is not TOML", "policy"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_its_place_and_a_hint(tmp_path: Path, case: str) -> None:
    text, message, hint = WRONG[case]
    (tmp_path / "weft.toml").write_text(text)
    with pytest.raises(InputError) as refused:
        load_settings(tmp_path / "weft.toml", {}, {})
    assert str(tmp_path / "weft.toml") in refused.value.message
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_file_in_another_encoding_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_bytes(b'policy = "caf\xe9"')
    with pytest.raises(InputError, match="cannot be read"):
        load_settings(tmp_path / "weft.toml", {}, {})
    with pytest.raises(InputError, match="is a folder, not a file"):
        load_settings(tmp_path, {}, {})


def test_without_a_file_everything_is_as_by_default(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "weft.toml", {}, {"policy": None, "devices": None}) == Settings()
    assert Settings().policy == DEFAULT_POLICY


def test_everything_can_be_set(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(
        'policy = "fifo"\ndevices = "cpu=2"\nstop_grace_s = 0\npause_grace_s = 2.5\nstartup_s = 7\nsilent_s = 30\n'
        "snapshot_rows = 100\nlog_days = 7\nstrict_memory = true\n"
        "[tenants.vision]\nquota = 4\n[tenants.speech]\nquota = 0\n"
    )
    quotas = {"vision": 4, "speech": 0}
    expected = Settings("fifo", "cpu=2", 0, 2.5, 7, 30, 100, log_days=7, strict_memory=True, quotas=quotas)
    assert load_settings(tmp_path / "weft.toml", {}, {}) == expected


def test_a_flag_goes_before_a_variable_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text('policy = "fifo"\ndevices = "cpu=2"')
    environ = {"WEFT_POLICY": "srtf", "WEFT_DEVICES": ""}
    assert load_settings(file, environ, {}).policy == "srtf"
    assert load_settings(file, environ, {}).devices == "cpu=2", "an empty variable says nothing"
    assert load_settings(file, environ, {"policy": "las", "devices": None}).policy == "las"


def test_a_policy_changed_while_weft_ran_stays_until_somebody_says_otherwise(tmp_path: Path) -> None:
    from weft.control.daemon import chosen_policy
    from weft.control.store.log_store import LogStore

    store = LogStore(tmp_path / "weft.db")
    filed = Settings(policy="fifo")
    assert chosen_policy(store, filed, filed, is_asked=False).label == "fifo"
    store.put_settings([("policy", "srtf")])  # as PUT /v1/policy does
    assert chosen_policy(store, filed, filed, is_asked=False).label == "srtf"
    assert chosen_policy(store, Settings(policy="las"), filed, is_asked=True).label == "las", "a flag"
    assert chosen_policy(store, filed, filed, is_asked=False).label == "las"
    assert chosen_policy(store, filed, filed, is_asked=True).label == "fifo", "a flag that says what weft.toml says"
    changed = Settings(policy="fair")
    assert chosen_policy(store, changed, changed, is_asked=False).label == "fair", "a new weft.toml"
    with pytest.raises(InputError, match="unknown policy"):
        chosen_policy(store, Settings(policy="typo"), changed, is_asked=True)
    assert chosen_policy(store, changed, changed, is_asked=False).label == "fair", (
        "what could not be chosen is not remembered"
    )
    store.put_settings([("policy", "gone.py:Mine")])
    assert chosen_policy(store, changed, changed, is_asked=False).label == "fair", "a file of one's own that has gone"
    store.close()
