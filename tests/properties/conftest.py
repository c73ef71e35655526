"""The slow reference simulator lies one folder up, for all tests to use."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
