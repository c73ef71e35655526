"""Every test is of exactly one tier."""

from __future__ import annotations

import pytest

from tiers import OF_FOLDER, TESTS, TIERS, tier_of_folder, tiers_in, tiers_of


def test_every_test_of_this_run_is_of_one_tier(request: pytest.FixtureRequest) -> None:
    """Of those that this run has collected: all of them, when all are run."""
    wrong = {item.nodeid: tiers_of(item) for item in request.session.items if len(tiers_of(item)) != 1}
    assert not wrong


def test_every_folder_with_tests_has_a_tier() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    assert folders == OF_FOLDER.keys()
    assert set(OF_FOLDER.values()) <= TIERS.keys()


def test_a_file_that_names_a_tier_names_one_that_is_known_and_not_its_folders() -> None:
    for path in TESTS.rglob("test_*.py"):
        marks = tiers_in(path)
        assert len(marks) <= 1, path
        assert tier_of_folder(path) not in marks, f"{path}: its folder says so"
