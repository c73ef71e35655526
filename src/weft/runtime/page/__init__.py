"""Shared memory between a job and its node: the control page of a task, the page of a lane."""
