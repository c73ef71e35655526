"""What a node does for its tasks: their control pages, their launch, their pauses."""
