"""Feeds the applications: an idempotent producer of confluent-kafka, whose records are numbered."""

from __future__ import annotations

from functools import partial

from tests.chaos.load import role_of, run_threads
from tests.chaos.load_confluent import produce
from tests.chaos.pipeline import INPUT, PARTITIONS

if __name__ == "__main__":
    mine = role_of()
    pace = {"partitions": PARTITIONS, "burst": 8}
    run_threads(mine, [], [partial(produce, mine, INPUT, **pace, **{"enable.idempotence": True})])
