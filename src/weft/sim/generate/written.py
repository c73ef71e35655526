"""A synthetic trace in weft's own form, as `weft simulate` reads it."""

from __future__ import annotations

from weft.sim.generate.draw import Drawn

HEADER = "arrival,duration,gang,tenant\n"


def plain_csv(drawn: Drawn) -> str:
    """Arrivals to the millisecond: on a large cluster a thousand jobs may come within minutes."""
    columns = (drawn.arrival_s, drawn.duration_s, drawn.gang_size, drawn.tenant)
    jobs = zip(*(column.tolist() for column in columns), strict=True)
    rows = [
        f"{arrival_s:.3f},{duration_s:.0f},{gang},tenant-{tenant}\n" for arrival_s, duration_s, gang, tenant in jobs
    ]
    return HEADER + "".join(rows)
