"""Every scenario."""

from __future__ import annotations

from tests.interop.python import administration, groups, records, secured, transactions
from tests.interop.python.harness import named

ALL = [*groups.SCENARIOS, *records.SCENARIOS, *transactions.SCENARIOS, *administration.SCENARIOS, *secured.SCENARIOS]
ALONE = named(records.broker_restart)
