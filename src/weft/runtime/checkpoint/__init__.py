"""What makes a run resumable: its state, saved durably and loaded without running foreign code."""
