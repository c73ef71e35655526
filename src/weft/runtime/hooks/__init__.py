"""From PyTorch's hooks to step boundaries."""
