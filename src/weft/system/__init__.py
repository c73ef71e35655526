"""What weft needs of the operating system: processes, files, locks, mounts, and units as people write them."""
