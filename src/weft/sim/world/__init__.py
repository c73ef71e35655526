"""The model of the world: what a start costs, how fast a job runs where it was placed, and beside which others."""

from weft.sim.world.model import Habits, Speeds, World
from weft.sim.world.world_file import KEYS, PACKAGED, load_world

__all__ = ["KEYS", "PACKAGED", "Habits", "Speeds", "World", "load_world"]
