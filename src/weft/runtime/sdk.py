"""The SDK: a script's state, steps and metrics. Outside weft these functions do nothing.

run = weft.init(model=model, optimizer=optimizer, scheduler=scheduler)
for epoch in range(run.epoch, 10):
    for x, y in weft.steps(loader):
        ...
        weft.report(loss=loss)
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # outside weft a script that imports this should not notice it
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

    from .checkpoint.run_state import Progress

# Only the copy that was injected into a job acts for it. Any other one, such as an installed weft of another version
# that was imported where nothing was injected, does nothing.
PAGE = os.environ.get("WEFT_PAGE") if __name__.startswith("weft_runtime.") else None

_begun: list[Progress] = []


def _progress() -> Progress | None:
    if PAGE and not _begun:
        from .agent import the_agent
        from .checkpoint.run_state import Progress

        _begun.append(Progress(the_agent(PAGE), os.environ.get("WEFT_CHECKPOINTS")))
    return _begun[0] if _begun else None


class Run:
    """The position of a run when its script begins: the start, or its last checkpoint."""

    def __init__(self, step: int = 0, epoch: int = 0, is_resumed: bool = False) -> None:
        self.step = step
        self.epoch = epoch
        self.is_resumed = is_resumed


def init(**parts: Any) -> Run:
    """Name what makes up the run's state: model, optimizer, scheduler, anything with state_dict and load_state_dict.

    If there is a checkpoint it is loaded into them, and `run.epoch` and `run.step` say where to go on. In a gang, call
    it after init_process_group: the ranks agree on the step.
    """
    for name, part in parts.items():
        if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            raise TypeError("weft.init(%s=…): a %s has no state_dict and load_state_dict" % (name, type(part).__name__))
    progress = _progress()
    if progress is None:
        return Run()
    is_resumed = progress.resume(parts)
    return Run(progress.step, progress.place.epoch, is_resumed)


class steps:  # noqa: N801 -- used as a function: for batch in weft.steps(loader)
    """One pass over a loader, each batch a step. After a resume the first pass leaves out the batches already used.

    A pass inside another one is no more than its batches; so is one under torch.no_grad() in a script that trains.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        progress = _progress()
        return iter(self._loader) if progress is None else progress.batches(self._loader)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]


class step:  # noqa: N801 -- used as a function: with weft.step():
    """The body of one step, for loops that go over no loader."""

    def __enter__(self) -> None:
        progress = _progress()
        self._progress = None if progress is None or progress.is_inside else progress
        if self._progress is not None:
            self._progress.begin()
            self._progress.begin_step()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._progress is None:
            return
        if kind is None:
            self._progress.end_step()
        else:
            self._progress.fail_step()


def report(**values: Any) -> None:
    """Show metrics of the run, such as loss=…, beside its steps. Up to eight names are kept."""
    progress = _progress()
    if progress is not None:
        for name, figure in values.items():
            progress.report(name, figure)


def checkpoint() -> None:
    """Save the run at the end of this step; between two passes, at once."""
    progress = _progress()
    if progress is not None:
        progress.checkpoint()
