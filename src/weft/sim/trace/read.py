"""Reading a trace: open each file, find its form, check every row, put all on one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from weft.core.errors import InputError
from weft.sim.trace.collect import Collector
from weft.sim.trace.distinct import title_of, with_distinct_ids
from weft.sim.trace.file import TraceFile, opened
from weft.sim.trace.forms import FORMS, Layout, plain
from weft.sim.trace.trace import Trace

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
        if plain.PLAIN.fits(file.first_line.replace(mark, ",")):
            raise InputError(f"{file.name}: the columns are separated by {name}s", "Separate them by commas.")
    lacking = plain.PLAIN.lacking(file.first_line)
    if len(lacking) < len(plain.PLAIN.requires) or any(lacking.values()):
        message = f"{file.name}: the header has no column {' and no column '.join(lacking)}"
        hints = [f"{near}: did you mean {column}? " for column, near in lacking.items() if near]
        raise InputError(message, "".join(hints) + f"The form plain needs {plain.PLAIN.needs}.")


def _check_one_clock(files: Sequence[TraceFile]) -> None:
    """Dates and seconds from some zero have no common order; a guess would put decades between the files."""
    dated = [file.name for file in files if file.tells_dates]
    counted = [file.name for file in files if not file.tells_dates]
    if dated and counted:
        message = f"{dated[0]} tells dates and {counted[0]} tells seconds, so they have no clock in common"
        raise InputError(message, "Give arrivals as dates in all files, or as seconds in all files.")
