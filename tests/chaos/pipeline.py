"""What the parts of the exactly-once test agree on: topics, groups, and what an application does to a record."""

from __future__ import annotations

import random

from tests.chaos.load import Role

INPUT = "input"
PARTITIONS = 4
KINDS = ("confluent", "ottla", "java")
PROCESSES = 2
BATCH = 40
ABORTS = 0.08
"""How often an application aborts a transaction of its own accord, when all of it is sent."""
WORK_S = 0.04
"""The longest that the work on a batch takes, between reading and committing."""
SESSION_MS = 2_000
TRANSACTION_TIMEOUT_MS = 15_000
PROMISED, TAKEN_BACK = "done:", "aborted:"
"""How a transformed record begins, in a transaction to be committed and in one to be aborted."""


def output_of(kind: str) -> str:
    return f"output-{kind}"


def group_of(kind: str) -> str:
    return f"group-{kind}"


class Application:
    """One process of an application. Its name is also its transactional id.

    Attributes:
        reading: options of its consumer, as both clients name them.
    """

    def __init__(self, kind: str, role: Role) -> None:
        self.role = role
        self.output, self.group = output_of(kind), group_of(kind)
        self.chance = random.Random(role.seed)
        self.reading = {
            "client_id": role.name,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 200,
            **({"group_instance_id": role.name} if role.static else {}),
        }
