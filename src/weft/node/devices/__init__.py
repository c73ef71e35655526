"""The devices of a node, and what tasks on them are told."""
