"""Synthetic traces: seeded, at the load one asks for, with the distributions of published clusters."""

from weft.sim.generate.draw import Drawn, Wishes, generate
from weft.sim.generate.likes import LIKES
from weft.sim.generate.written import plain_csv

__all__ = ["LIKES", "Drawn", "Wishes", "generate", "plain_csv"]
