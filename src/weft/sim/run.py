"""One run: a fresh policy, the simulation, and what is left of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.sim.cluster import cluster_text
from weft.sim.engine import Simulation
from weft.sim.named import NamedPolicy
from weft.sim.request import Request
from weft.sim.result import Run


def run(request: Request, named: NamedPolicy, watch: Callable[[int], None]) -> Run:
    started_s = time.perf_counter()
    simulation = Simulation(
        request.trace, request.cluster, named.build(), request.world, request.seed, watch, request.quotas
    )
    with _no_garbage_collection():
        simulation.run()
    wall_s = time.perf_counter() - started_s
    return Run(
        policy=named.label,
        parameters={**named.parameters, **request.parameters},
        trace=request.trace.name,
        cluster=cluster_text(request.cluster),
        device_count=request.cluster.device_count,
        seed=request.seed,
        jobs=simulation.jobs(),
        timeline=simulation.timeline(),
        events=simulation.events,
        wall_s=wall_s,
        heeds_classes=simulation.scheduler.heeds_classes,
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A simulation makes no reference cycles; looking for them takes a twentieth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
