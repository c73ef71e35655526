"""Ids that are one job's only: refused when repeated within a file, told apart when files share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from weft.core.errors import InputError
from weft.sim.trace.columns import Columns
from weft.sim.trace.ids import WrittenIds, packed


def with_distinct_ids(columns: Columns, id_labels: Sequence[str]) -> Columns:
    """The columns, with the file's title before each id where two files use the same one."""
    row_of: dict[tuple[int, str], int] = {}
    for row in columns.ids.perhaps_repeated().tolist():
        file, job_id = columns.file_of(row), columns.ids[row]
        earlier = row_of.setdefault((file, job_id), row)
        if earlier != row:
            message = f'{columns.where(row)}, {id_labels[file]}: "{job_id}" is already the id of'
            raise InputError(f"{message} line {columns.lines[earlier]}", "Each job has an id of its own.")
    files_share_ids = len({job_id for _, job_id in row_of}) < len(row_of)
    return replace(columns, ids=_prefixed(columns)) if files_share_ids else columns


def title_of(path: str | Path) -> str:
    """A file's name without what says how it is written."""
    return Path(path).name.removesuffix(".gz").removesuffix(".csv").removesuffix(".json")


def _prefixed(columns: Columns) -> WrittenIds:
    titles = [title_of(name) for name in columns.files]
    if len(set(titles)) < len(titles):
        titles = [str(number) for number in range(1, len(titles) + 1)]
    edges = pairwise([*columns.file_starts, len(columns.lines)])
    return WrittenIds.of(
        packed([f"{title}/{job_id}" for job_id in columns.ids.take(np.arange(start, end))])
        for title, (start, end) in zip(titles, edges, strict=True)
    )
