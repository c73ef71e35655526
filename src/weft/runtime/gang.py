"""What the ranks of a gang have to agree on before they go on from a checkpoint."""

import os
from typing import Any, List

from .claiming import process_group


def rank() -> int:
    group = process_group()
    return int(os.environ.get("RANK", "0")) if group is None else int(group.get_rank())


def common_steps(steps: List[int]) -> List[int]:
    """Of the steps this rank could go on from, those that every rank can. All ranks have to ask."""
    group = process_group()
    if group is None:
        return steps
    everybodys: List[Any] = [None] * group.get_world_size()
    group.all_gather_object(everybodys, steps)
    return sorted(set.intersection(*map(set, everybodys)))
