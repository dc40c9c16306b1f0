"""Gold tables: what silver tables mean, as SQL, one file a table."""

from __future__ import annotations

from ottla.pipeline.gold.builder import EVENT_KINDS, KINDS, TableResult, build, unknowable
from ottla.pipeline.gold.objectives import Objectives

__all__ = ["EVENT_KINDS", "KINDS", "Objectives", "TableResult", "build", "unknowable"]
