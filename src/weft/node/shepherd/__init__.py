"""The parent process of a task."""
