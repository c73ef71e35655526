"""A task from outside: its control pages, its ranks, and bringing them to a pause."""
