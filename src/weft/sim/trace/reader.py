"""Reading a trace: open each file, find its form, check every row, put all on one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.values import JobClass
from weft.sim.trace.column_store import CodedBuilder, Columns, Floats, IdsBuilder, Ints, RowBatch, WrittenIds, packed
from weft.sim.trace.formats import FORMS, Layout, weft_csv
from weft.sim.trace.jobs import Trace
from weft.sim.trace.trace_file import TraceFile, opened

SAMPLE = "sample"
SEPARATORS = {";": "semicolon", "\t": "tab", "|": "bar"}


def read_trace(paths: str | Path | Sequence[str | Path], *, form: str | None = None, first: int | None = None) -> Trace:
    """The jobs of one file, or several merged by the times they give. InputError names the first bad row."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InputError("no trace file is named", f'Name one, or "{SAMPLE}" for the one that comes with weft.')
    if form is not None and form not in FORMS:
        raise InputError(f'unknown form "{form}"', f"The forms are {', '.join(FORMS)}.")
    collector = Collector()
    files = [_collect(path, form, collector) for path in given]
    _check_one_clock(files)
    columns = with_distinct_ids(collector.columns(), [file.id_label for file in files])
    left_out = sum((file.left_out for file in files), Counter[str]())
    ignored = dict.fromkeys(column for file in files for column in file.ignored_columns)
    name = " + ".join(title_of(path) for path in given)
    trace = Trace(columns, name, left_out, ignored_columns=tuple(ignored))
    return trace if first is None else trace.first(first)


def _path_of(path: str | Path) -> Path:
    """`sample` is the trace in this package, unless there is a file of that name."""
    if str(path) == SAMPLE and not Path(path).exists():
        return Path(__file__).with_name("sample.csv")
    return Path(path)


def _collect(path: str | Path, form: str | None, collector: Collector) -> TraceFile:
    with opened(_path_of(path), str(path)) as file:
        layout = _layout_of(file, form)
        collector.start_file(file.name)
        count = sum(collector.add(batch) for batch in layout.batches(file))
    if not count:
        reasons = ", ".join(f"{reason}: {rows}" for reason, rows in file.left_out.items())
        found = f"all rows are left out ({reasons})" if reasons else "a header but no rows"
        raise InputError(f"{file.name}: {found}", "A trace has one job at least.")
    return file


def _layout_of(file: TraceFile, form: str | None) -> Layout:
    layouts = FORMS[form] if form else tuple(chain.from_iterable(FORMS.values()))
    for layout in layouts:
        if layout.fits(file.first_line):
            return layout
    if form in (None, "plain"):
        _refuse_if_nearly_plain(file)
    if form is None:
        needs = f"The forms are {', '.join(FORMS)}. The simplest, plain, needs {FORMS['plain'][0].needs}."
        raise InputError(f"{file.name}: the first line is the header of no form of trace", needs)
    needs = " or ".join(layout.needs for layout in layouts)
    raise InputError(f"{file.name}: the first line does not fit the form {form}", f"It needs {needs}.")


def _refuse_if_nearly_plain(file: TraceFile) -> None:
    """Name what is wrong with a header that has some of the plain columns."""
    for mark, name in SEPARATORS.items():
        if weft_csv.PLAIN.fits(file.first_line.replace(mark, ",")):
            raise InputError(f"{file.name}: the columns are separated by {name}s", "Separate them by commas.")
    lacking = weft_csv.PLAIN.lacking(file.first_line)
    if len(lacking) < len(weft_csv.PLAIN.requires) or any(lacking.values()):
        message = f"{file.name}: the header has no column {' and no column '.join(lacking)}"
        hints = [f"{near}: did you mean {column}? " for column, near in lacking.items() if near]
        raise InputError(message, "".join(hints) + f"The form plain needs {weft_csv.PLAIN.needs}.")


def _check_one_clock(files: Sequence[TraceFile]) -> None:
    """Dates and seconds from some zero have no common order; a guess would put decades between the files."""
    dated = [file.name for file in files if file.tells_dates]
    counted = [file.name for file in files if not file.tells_dates]
    if dated and counted:
        message = f"{dated[0]} has dates and {counted[0]} has seconds, so they have no clock in common"
        raise InputError(message, "Give arrivals as dates in all files, or as seconds in all files.")


# ---- Ids that are one job's only: refused when repeated within a file, distinguished when files share them.


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


# ---- From the batches of one file after the other to the columns of the whole trace.


class Collector:
    """Takes batches and keeps them as compact columns, so that the texts of a batch can go."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._file_starts: list[int] = []
        self._count = 0
        self._ids = IdsBuilder()
        self._tenants = CodedBuilder("default")
        self._job_classes = CodedBuilder(JobClass.AUTO)
        self._device_types: CodedBuilder[frozenset[str] | None] = CodedBuilder(None)
        self._memory_bytes: CodedBuilder[int | None] = CodedBuilder(None)
        self._models = CodedBuilder("")
        self._lines: list[NDArray[np.int32]] = []
        self._gang_size: list[Ints] = []
        self._arrival_s: list[Floats] = []
        self._duration_s: list[Floats] = []
        self._skew: list[Floats] = []
        self._min_run_s: list[Floats] = []
        self._by_type_s: list[Mapping[str, Floats]] = []

    def start_file(self, name: str) -> None:
        self._files.append(name)
        self._file_starts.append(self._count)

    def add(self, batch: RowBatch) -> int:
        """Keeps the jobs of the batch and says how many they are."""
        count = len(batch.lines)
        self._count += count
        self._ids.add(batch.ids, count)
        self._tenants.add(batch.tenants, count)
        self._job_classes.add(batch.job_classes, count)
        self._device_types.add(batch.device_types, count)
        self._memory_bytes.add(batch.memory_bytes, count)
        self._models.add(batch.models, count)
        self._lines.append(np.array(batch.lines, np.int32))
        self._gang_size.append(batch.gang_size)
        self._arrival_s.append(batch.arrival_s)
        self._duration_s.append(batch.duration_s)
        self._skew.append(np.full(count, np.nan) if batch.skew is None else batch.skew)
        self._min_run_s.append(np.zeros(count) if batch.min_run_s is None else batch.min_run_s)
        self._by_type_s.append(batch.duration_by_type_s)
        return count

    def columns(self) -> Columns:
        return Columns(
            files=tuple(self._files),
            file_starts=tuple(self._file_starts),
            lines=np.concatenate(self._lines),
            arrival_s=np.concatenate(self._arrival_s),
            duration_s=np.concatenate(self._duration_s),
            gang_size=np.concatenate(self._gang_size),
            ids=self._ids.build(),
            tenants=self._tenants.build(),
            job_classes=self._job_classes.build(),
            device_types=self._device_types.build(),
            memory_bytes=self._memory_bytes.build(),
            models=self._models.build(),
            skew=np.concatenate(self._skew),
            min_run_s=np.concatenate(self._min_run_s),
            duration_by_type_s={name: self._on_type_s(name) for mapping in self._by_type_s for name in mapping},
        )

    def _on_type_s(self, name: str) -> Floats:
        sizes = map(len, self._lines)
        return np.concatenate(
            [by_type.get(name, np.full(size, np.nan)) for by_type, size in zip(self._by_type_s, sizes, strict=True)]
        )
