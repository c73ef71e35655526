"""What README and docs/ tell a reader to type works as printed."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pytest
from examples import FILES, README, ROOT, RUN, SHOWN, WEFT, block, blocks, environment, pages, run_page, write_files

import weft

DOCS = ROOT / "docs"
PAUSE, SHARE, SIMULATE = (DOCS / "guides" / f"{name}.md" for name in ("pause", "share", "simulate"))
PAGE = "/dev/shm/mine.page"  # noqa: S108 -- what the guide says
ENDED_AT_ONCE = "import sys; print('trained', *sys.argv[1:])\n"
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
TRAINING = [
    each.text.strip() for each in blocks(PAUSE) if each.language == "sh" and "weft exec" in each.text and each.test
]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


RUNNABLE = [page for page in pages() if any(each.language in RUN for each in blocks(page))]


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="weft-docs-") as folder:
        Path(folder, "weft.toml").write_text('devices = "cpu=4"\n', encoding="utf-8")
        yield Path(folder)


@pytest.mark.parametrize("page", RUNNABLE, ids=named)
def test_every_example_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, home: Path) -> None:
    """In an empty folder but for the scripts, which end at once; those of `weft exec` train."""
    trains = any("weft exec" in each.text for each in blocks(page))
    for script in ("train.py", "eval.py", "one.py", "two.py"):
        (tmp_path / script).write_text(SHORT_TRAINING if trains else ENDED_AT_ONCE, encoding="utf-8")
    write_files(page, tmp_path, home)
    env = environment(home)
    try:
        run_page(page, tmp_path, home)
        if (home / "weft.db").exists():
            subprocess.run([WEFT, "up"], env=env, check=True, capture_output=True)
            with weft.Client(home) as client:
                states = {client.wait(job["id"])["state"] for job in client.queue(all=True)}
            assert states <= {"SUCCEEDED"}
    finally:
        subprocess.run([WEFT, "down", "--stop-jobs"], env=env, check=True, capture_output=True)


@pytest.mark.parametrize("page", pages(), ids=named)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for each in blocks(page):
        assert each.language in (*RUN, *FILES, SHOWN), f"of which language is this?\n{each.text}"
        assert each.language not in FILES or each.file, f"which file is this?\n{each.text}"
        assert not each.test or each.test in globals(), f"there is no test {each.test}"


@pytest.mark.parametrize("page", [README, SIMULATE], ids=named)
def test_the_first_simulation_prints_what_the_page_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    beginning, _, rest = block(page, "sample: ").partition("…\n")
    assert rest == ""
    done = subprocess.run([WEFT, "simulate", "sample"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(beginning)


def test_what_the_guide_says_of_the_sample_over_seeds_and_in_the_ideal_world_holds() -> None:
    words = " ".join(SIMULATE.read_text(encoding="utf-8").split())

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


def test_a_machine_is_shared_as_the_guide_says(tmp_path: Path, home: Path) -> None:
    for script in ("train.py", "eval.py"):
        (tmp_path / script).write_text(ENDED_AT_ONCE, encoding="utf-8")
    write_files(SHARE, tmp_path, home)
    env = environment(home)
    try:
        printed = run_page(SHARE, tmp_path, home)
        assert "SUCCEEDED hello" in printed
        assert "weft_jobs{" in printed
        with weft.Client(home) as client:
            assert len([job for job in client.queue(all=True) if "_" in job["id"]]) == 10
    finally:
        subprocess.run([WEFT, "down", "--stop-jobs"], env=env, check=True, capture_output=True)


@pytest.mark.parametrize("command", TRAINING)
def test_the_training_script_pauses_as_the_page_says(command: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(block(PAUSE, "# train.py"), encoding="utf-8")
    with TemporaryDirectory(prefix="weft-test-", dir="/dev/shm") as folder:
        page = Path(folder) / "mine.page"
        words = shlex.split(command.replace(PAGE, str(page)).replace("-- python", f"-- {sys.executable}"))
        process = subprocess.Popen([str(WEFT), *words[1:]], cwd=tmp_path)
        while not page.exists():
            assert process.poll() is None
        with weft.attach(page) as task:
            task.pause(grace_s=60)  # now, or a quick machine is done before the next interpreter has started
            pausing = block(PAUSE, "# pausing.py").replace(PAGE, str(page))
            shown = subprocess.run([sys.executable, "-c", pausing], cwd=tmp_path, capture_output=True, text=True)
            assert shown.stdout.startswith("Pause(how='boundary', depth='gate', step="), shown.stderr
            assert "state='paused'" in shown.stdout
            assert "source='script'" in shown.stdout
            if "--checkpoints" in words:
                assert task.pause("checkpoint", grace_s=60).how == "left"
                assert process.wait() == 75
            else:
                process.terminate()
                assert process.wait() == 128 + signal.SIGTERM


def test_the_readme_names_every_policy() -> None:
    from weft.policies import POLICIES

    text = README.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in POLICIES)


def test_the_readme_can_be_read_in_three_minutes() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_the_settings_of_the_guide_pass_the_doctor(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    write_files(SHARE, tmp_path, home)
    env = environment(home)

    def findings() -> list[dict[str, object]]:
        done = subprocess.run([WEFT, "doctor", "--json"], env=env, check=False, capture_output=True, text=True)
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    assert [each for each in findings() if each["what"] == "settings" and not each["is_ok"]] == []
    subprocess.run([WEFT, "up"], env=env, check=True, capture_output=True)
    try:
        assert [each for each in findings() if not each["is_ok"]] == []
    finally:
        subprocess.run([WEFT, "down"], env=env, check=True, capture_output=True)
