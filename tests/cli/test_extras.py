"""`pip install weft` is enough for a daemon and its clients; what needs `weft[sim]` says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = ("numpy", "scipy", "plotly", "pandas", "rich")
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r}))\n"


def run(source: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", WITHOUT + source, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def weft(*words: str) -> subprocess.CompletedProcess[str]:
    return run("from weft.cli.main import main; main()", *words)


def test_the_daemon_the_coordinator_and_all_other_policies_load_without_it() -> None:
    done = run(
        "import weft.control.daemon, weft.node.coordinator, weft.client\n"
        "from weft.policies.loader import policies_asked\n"
        "from weft.policies.registry import POLICIES\n"
        "loaded = [policies_asked(name)[0].label for name in POLICIES if name != 'allox']\n"
        "assert len(loaded) > 10 and not any(name.startswith('weft.sim') for name in sys.modules)\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_policy_allox_says_what_to_install() -> None:
    done = run(
        "from weft.core.errors import InputError\n"
        "from weft.policies.loader import policies_asked\n"
        "try: policies_asked('allox')\n"
        "except InputError as error: print(error)\n"
    )
    assert done.stdout == "the policy allox needs numpy and scipy\nhint: pip install 'weft[sim]'\n"


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "sample"),
        ("simulate", "--history"),
        ("trace", "inspect", "sample"),
        ("trace", "generate", "--like", "philly", "--devices", "8"),
        ("calibrate",),
    ],
)
def test_a_verb_of_the_simulator_says_what_to_install(words: tuple[str, ...]) -> None:
    done = weft(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: weft {words[0]}")
    assert " needs numpy" in done.stderr
    assert done.stderr.endswith("hint: pip install 'weft[sim]'\n")


def test_policies_are_listed_without_it_and_allox_is_marked() -> None:
    done = weft("policies")
    assert done.returncode == 0
    assert done.stdout.count("pip install 'weft[sim]'") == 1


def test_from_python_the_simulator_says_what_to_install() -> None:
    done = run("import weft\ntry: weft.simulate\nexcept ImportError as error: print(error)")
    assert done.stdout.endswith("pip install 'weft[sim]'\n")
