"""Runs as JSON and CSV, and files that are either written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.core.errors import InputError
from weft.sim.request import Misfit
from weft.sim.results.summary import PolicyRun, completion_s, numbered, queueing_s, summarise

STDOUT = "-"
JOB_COLUMNS = (
    "policy", "id", "tenant", "gang_size", "arrival_s", "first_start_s", "finish_s",
    "completion_s", "queue_s", "run_s", "alone_s", "preemptions", "class",
)  # fmt: skip


def as_json(runs: Sequence[PolicyRun], skipped: Sequence[Misfit] = ()) -> dict[str, Any]:
    left_out = [{"id": each.id, "gang_size": each.gang_size, "why": each.why} for each in skipped]
    return {"runs": [_run_as_json(run) for run in runs], "skipped": left_out}


def json_text(runs: Sequence[PolicyRun], skipped: Sequence[Misfit] = ()) -> str:
    """Strict JSON; the same runs give the same bytes, but for `wall_s`."""
    return json.dumps(as_json(runs, skipped), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(runs: Sequence[PolicyRun], path: Path | str, skipped: Sequence[Misfit] = ()) -> None:
    write_text(path, json_text(runs, skipped))


def write_csv(runs: Sequence[PolicyRun], path: Path | str) -> None:
    """One row per job and policy."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(JOB_COLUMNS)
    writer.writerows(job_rows(runs))
    write_text(path, text.getvalue())


def job_rows(runs: Sequence[PolicyRun]) -> Iterator[tuple[Any, ...]]:
    """The values of JOB_COLUMNS for each job of each run."""
    for label, run in zip(numbered([run.policy for run in runs]), runs, strict=True):
        jobs = run.jobs
        columns = (
            jobs.gang_size, jobs.arrival_s, jobs.first_start_s, jobs.finish_s,
            completion_s(jobs), queueing_s(jobs), jobs.run_s, jobs.alone_s, jobs.preemptions,
        )  # fmt: skip
        plain = (column.tolist() for column in columns)
        for job in zip(jobs.ids, jobs.tenants, *plain, jobs.classes, strict=True):
            yield (label, *job)


def class_rows(runs: Sequence[PolicyRun]) -> Iterator[dict[str, Any]]:
    """The figures of each class of each run, and of all its jobs under the name `all`."""
    for label, run in zip(numbered([run.policy for run in runs]), runs, strict=True):
        summary = summarise(run)
        for name, each in {**summary.classes, "all": summary.all_jobs}.items():
            yield {"policy": label, "heeds_classes": run.heeds_classes, "class": name, **asdict(each)}


def check_writable(path: Path | str) -> None:
    """Refuse, before any long work, a path that could not be written after it."""
    if str(path) == STDOUT:
        return
    try:
        if _is_special(Path(path)):
            Path(path).open("a").close()
        else:
            draft = _draft_of(Path(path))
            draft.touch()
            draft.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write_text(path: Path | str, text: str) -> None:
    """Write the whole file or leave the old one as it was; `-` is standard output."""
    if str(path) == STDOUT:
        sys.stdout.write(text)
        return
    try:
        if _is_special(Path(path)):
            Path(path).write_text(text, encoding="utf-8")
        else:
            _replace(Path(path), text)
    except OSError as error:
        raise _unwritable(path, error) from error


def _run_as_json(run: PolicyRun) -> dict[str, Any]:
    numbers = asdict(summarise(run))
    bins, classes = numbers.pop("bins"), numbers.pop("classes")
    return {
        "policy": run.policy,
        "parameters": dict(sorted(run.parameters.items())),
        **numbers,
        "trace": run.trace,
        "cluster": run.cluster,
        "device_count": run.device_count,
        "seed": run.seed,
        "bins": bins,
        "classes": classes,
    }


def _is_special(path: Path) -> bool:
    """A directory, a pipe, /dev/null: a rename would put a file in its place."""
    return path.exists() and not path.is_file()


def _draft_of(path: Path) -> Path:
    """Beside the target, so that the rename stays on one file system; a link keeps pointing where it did."""
    target = path.resolve()
    return target.with_name(f".{target.name}.{os.getpid()}.draft")


def _replace(path: Path, text: str) -> None:
    draft = _draft_of(path)
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path.resolve())
    finally:
        draft.unlink(missing_ok=True)


def _unwritable(path: Path | str, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot write {path}: {reason}", "name a file in a folder that exists and that you may write to")
