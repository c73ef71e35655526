"""The processes of a task, found and ended as a whole."""
