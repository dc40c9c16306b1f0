"""``python -m tests.chaos.postgres.planted NAME serve …`` is a node with a bug, which a run with faults must find."""

from __future__ import annotations

import sys

from ottla.broker.runtime import node
from ottla.broker.storage.postgres import statements
from ottla.cli.main import main

_FENCED = " AND s.leader_epoch = s.epoch AND s.log_end = s.base"


def _without_fence() -> None:
    """Appends ask neither for their epoch nor for the end of the log."""
    assert statements.APPEND.count(_FENCED) == 1
    statements.APPEND = statements.APPEND.replace(_FENCED, "")


def _without_eviction() -> None:
    """Who keeps a claim waiting is left alone."""
    node.EVICTED_AFTER = sys.maxsize


PLANTED = {"no fence": _without_fence, "no eviction": _without_eviction}

if __name__ == "__main__":
    PLANTED[sys.argv.pop(1)]()
    main()
