"""The clients' logger."""

from __future__ import annotations

import logging

log = logging.getLogger("ottla.clients")
