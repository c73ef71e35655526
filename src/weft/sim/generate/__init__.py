"""Synthetic traces: seeded, at the load one asks for, with the distributions of published clusters."""

from weft.sim.generate.draw import LIKES, Drawn, LoadSpec, generate, plain_csv

__all__ = ["LIKES", "Drawn", "LoadSpec", "generate", "plain_csv"]
