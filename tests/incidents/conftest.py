"""The demo is not installed: it is run from the repository's root."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Last, so that nothing but `examples` is ever found there: the rooms are imported as ottla.….
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
