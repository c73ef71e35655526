"""One attempt on a node: its orders, states, transitions and records."""
