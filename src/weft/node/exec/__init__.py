"""A command run by hand as a task."""
