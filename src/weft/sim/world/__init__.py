"""The model of the world: what a start costs, how fast a job runs where it was placed, and beside whom."""

from weft.sim.world.file import KEYS, PACKAGED, load_world
from weft.sim.world.ground import Ground
from weft.sim.world.model import Habits, World

__all__ = ["KEYS", "PACKAGED", "Ground", "Habits", "World", "load_world"]
