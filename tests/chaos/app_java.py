"""Consume, transform, produce with the Java clients, as members of a group of the protocol ``consumer``."""

from __future__ import annotations

from tests.chaos.load import role_of
from tests.chaos.load_java import become
from tests.chaos.pipeline import ABORTS, BATCH, INPUT, TRANSACTION_TIMEOUT_MS, WORK_S, Application

if __name__ == "__main__":
    app = Application("java", role_of())
    become(
        app.role,
        input=INPUT,
        output=app.output,
        group=app.group,
        seed=app.role.seed,
        static=app.role.static,
        batch=BATCH,
        aborts=ABORTS,
        work_ms=int(WORK_S * 1000),
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
