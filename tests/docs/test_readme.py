"""What the README tells people to type works as printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest

import weft
from waiting import PATIENCE_S

WEFT = Path(sys.executable).with_name("weft")
PAGE = "/dev/shm/mine.page"  # noqa: S108 -- what the README says
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def python(name: str) -> str:
    """The Python block that begins with this line."""
    (found,) = [block for block in blocks("python") if block.startswith(name)]
    return found


COMMANDS = [line.split("  #")[0] for block in blocks("sh") for line in block.splitlines() if line.startswith("weft ")]
SIMULATIONS = [command for command in COMMANDS if "simulate" in command]
TRAINING = [command for command in COMMANDS if "exec" in command and "--page" in command]
SHARING = [command for command in COMMANDS if "exec" in command and "--page" not in command]
LIVE = [command for command in COMMANDS if command not in SIMULATIONS + TRAINING + SHARING]
SHORT_TRAINING = """
import torch
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(64, 256)).pow(2).mean().backward()
    optimizer.step()
print("trained")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder, but for the files that the README shows."""
    (tmp_path / "jobs.csv").write_text(blocks("csv")[0], encoding="utf-8")
    (tmp_path / "small_first.py").write_text(python("# small_first.py"), encoding="utf-8")
    (tmp_path / "train.py").write_text(python("# train.py"), encoding="utf-8")
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", SIMULATIONS)
def test_every_simulation_of_the_readme_runs(command: str, folder: Path) -> None:
    words = shlex.split(command)
    output = run([str(WEFT), *words[1:]], folder)
    policies = words[words.index("--policy") + 1].split(",") if "--policy" in words else ["weft"]
    assert all(policy.split(":")[0] in output for policy in policies)
    if "--report" in words:
        assert (folder / words[words.index("--report") + 1]).stat().st_size > 1_000_000


def test_the_first_simulation_prints_what_the_readme_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (shown,) = [block for block in blocks("text") if block.startswith("sample: ")]
    beginning, _, rest = shown.partition("…\n")
    assert rest == ""
    assert run([str(WEFT), "simulate", "sample"], folder).startswith(beginning)


def test_what_the_readme_says_of_the_sample_over_seeds_and_in_the_ideal_world_holds() -> None:
    words = " ".join(README.split())

    def minutes(world: str, seed: int) -> dict[str, float]:
        policies = ["tiresias-l", "antman", "weft"]
        frame = weft.simulate("sample", cluster="4x4", policy=policies, world=world, seed=seed).to_frame()
        return dict(zip(frame["policy"], frame["mean_jct_s"] / 60, strict=True))

    seeds = [minutes("default", seed) for seed in range(8)]
    of_weft = [each["weft"] for each in seeds]
    assert f"is between {min(of_weft):.1f} and {max(of_weft):.1f} min (median {median(of_weft):.1f})" in words
    (tiresias,) = {f"{each['tiresias-l']:.1f}" for each in seeds}
    (antman,) = {f"{each['antman']:.1f}" for each in seeds}
    assert f"under `tiresias-l` always {tiresias} min, and under `antman`," in words
    assert f"which does not preempt peers, {antman} min" in words
    ideal = minutes("ideal", 0)
    mine, other = ideal["weft"], ideal["tiresias-l"]
    said = f"`weft` is {100 * (mine / other - 1):.0f} % behind `tiresias-l` ({mine:.1f} against {other:.1f} min)"
    assert said in words


def test_the_python_example_of_the_readme_runs(folder: Path) -> None:
    assert "tiresias-l" in run([sys.executable, "-c", python("import weft\n\nresults")], folder)


def test_a_machine_is_shared_as_the_readme_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an empty home, line by line. What is trained here ends at once; training is shown elsewhere."""
    with TemporaryDirectory(prefix="weft-readme-") as home:
        monkeypatch.setenv("WEFT_HOME", home)
        monkeypatch.setenv("PATH", f"{WEFT.parent}:{os.environ['PATH']}")
        Path(home, "weft.toml").write_text(blocks("toml")[0], encoding="utf-8")
        for script in ("train.py", "eval.py"):
            (folder / script).write_text("import sys; print('trained', *sys.argv[1:])", encoding="utf-8")
        try:
            printed = [run(shlex.split(command), folder) for command in LIVE]
            assert printed[0] == "trained\n"  # weft run
            assert "SUCCEEDED hello" in run([sys.executable, "-c", python("import weft\n\nwith")], folder)
            with weft.Client() as client:
                jobs = {job["id"]: client.wait(job["id"]) for job in client.queue(all=True)}
            assert {job["state"] for job in jobs.values()} == {"SUCCEEDED"}
            assert len([job_id for job_id in jobs if "_" in job_id]) == 10
            (curl,) = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("curl ")]
            assert 'weft_jobs{state="SUCCEEDED"}' in run(["sh", "-c", curl], folder)
        finally:
            run([str(WEFT), "down", "--stop-jobs"], folder)


def test_jobs_share_a_device_as_the_readme_says(folder: Path) -> None:
    for name in ("train", "one", "two"):
        (folder / f"{name}.py").write_text(SHORT_TRAINING)
    lines = "\n".join(SHARING).replace("python ", f"{sys.executable} ").replace("weft ", f"{WEFT} ")
    assert run(["sh", "-c", f"{lines}\nwait"], folder).count("trained") == len(SHARING) == 3


@pytest.mark.parametrize("command", TRAINING)
def test_the_training_script_of_the_readme_pauses_as_it_says(command: str, folder: Path) -> None:
    with TemporaryDirectory(prefix="weft-test-", dir="/dev/shm") as pages:
        page = Path(pages) / "mine.page"
        words = shlex.split(command.replace(PAGE, str(page)).replace("-- python", f"-- {sys.executable}"))
        process = subprocess.Popen([str(WEFT), *words[1:]], cwd=folder)
        while not page.exists():
            assert process.poll() is None
        with weft.attach(page) as task:
            task.pause(grace_s=60)  # now, or a quick machine is done before the next interpreter has started
            printed = run([sys.executable, "-c", python("# pausing.py").replace(PAGE, str(page))], folder)
            assert printed.startswith("Pause(how='boundary', depth='gate', step=")
            assert "state='paused'" in printed
            assert "source='script'" in printed
            if "--checkpoints" in words:
                assert task.pause("checkpoint", grace_s=60).how == "left"
                assert process.wait() == 75
            else:
                process.terminate()
                assert process.wait() == 128 + signal.SIGTERM


def test_the_readme_names_every_policy() -> None:
    from weft.policies import POLICIES

    assert all(f"`{name}`" in README for name in POLICIES)


def test_the_settings_of_the_readme_pass_the_doctor(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (sample,) = [block for block in blocks("toml") if block.startswith("# weft.toml")]
    (home / "weft.toml").write_text(sample, encoding="utf-8")
    env = {name: text for name, text in os.environ.items() if not name.startswith("WEFT_")}
    words = [str(WEFT), "doctor", "--json"]
    env["WEFT_HOME"] = str(home)

    def findings() -> list[dict[str, object]]:
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    def weft_(*verb: str) -> None:
        subprocess.run([str(WEFT), *verb], env=env, check=True, capture_output=True)

    assert [each for each in findings() if each["what"] == "settings" and not each["is_ok"]] == []
    weft_("up")
    try:
        assert [each for each in findings() if not each["is_ok"]] == []
    finally:
        weft_("down")
