"""What the coordinator holds of other processes."""
