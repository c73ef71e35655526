"""Moving running jobs where that pays."""
