"""Every scenario."""

from __future__ import annotations

from tests.interop.python import administration, groups, records, transactions

ALL = [*groups.SCENARIOS, *records.SCENARIOS, *transactions.SCENARIOS, *administration.SCENARIOS]
ALONE = [("broker_restart", records.broker_restart)]
