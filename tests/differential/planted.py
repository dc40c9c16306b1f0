"""Planted differences: Ottla with one mistake in it, which random traces must notice beside Apache Kafka.

``python -m tests.differential.planted NUMBER serve …`` serves as ``ottla serve`` does, with that mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.testing import BrokerProcess
from tests.sim.mutants import MUTANTS, Mutant

SIMULATED = {bug.name: bug for bug in MUTANTS}
"""Those that the simulation finds, too."""

PLANTED = [
    SIMULATED["a heartbeat between join and sync is told to rejoin"],
    SIMULATED["commits are accepted between join and sync"],
    Mutant(
        "a replaced static member is unknown, not fenced",
        "groups.classic.group:Group.fence",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "return ErrorCode.UNKNOWN_MEMBER_ID",
    ),
    SIMULATED["issued ids do not hold the join phase open"],
    SIMULATED["a leader that rejoins unchanged starts no rebalance"],
    Mutant(
        "whoever joins again between join and sync starts anew",
        "groups.classic.join:_join_known",
        "if group.state is COMPLETING_REBALANCE and unchanged:",
        "if False:",
    ),
    Mutant(
        "a follower's SyncGroup may name any protocol",
        "groups.classic.sync:_validate",
        "or _differs(request.protocol_name, group.protocol_name)",
        "",
    ),
    SIMULATED["an emptied group keeps its generation"],
    Mutant(
        "offsets are logged without their leader epoch",
        "groups.records:offset_record",
        "leader_epoch=committed.leader_epoch",
        "leader_epoch=-1",
    ),
    Mutant(
        "a member that is silent is kept",
        "groups.classic.membership:session_over",
        "if not member.is_new and (member.parked_join is not None or member.parked_sync is not None):",
        "if not member.is_new:",
    ),
    Mutant(
        "a batch that is sent twice is out of order",
        "topics.producers:Producers.judge",
        "return batch",
        "return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    Mutant(
        "a producer with an old epoch may write",
        "topics.producers:Producers.judge",
        "if header.producer_epoch < state.epoch:",
        "if False:",
    ),
    Mutant(
        "open transactions are shown to readers of committed records",
        "topics.partition:Partition.last_stable_offset",
        "first_unstable is None or first_unstable >= high_watermark",
        "True",
    ),
    Mutant(
        "what was committed may be aborted afterwards",
        "transactions.ending:_judge",
        "if tx.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT):",
        "if tx.state in (COMPLETE_COMMIT, COMPLETE_ABORT):",
    ),
    Mutant(
        "settings are looked at after the name of their topic",
        "configs.alterations:_plan_topic",
        "if isinstance(configs, Refusal):",
        "if isinstance(configs, Refusal) and catalog.topics.get(name):",
    ),
    Mutant(
        "verifying a transaction is as good as adding to it",
        "transactions.adding:add",
        "elif tx.producer_epoch != producer_epoch:",
        "elif tx.producer_epoch > producer_epoch:",
    ),
]


class Mistaken(BrokerProcess):
    """A broker with a mistake, in a process of its own."""

    def __init__(self, number: int, settings: Mapping[str, object]) -> None:
        super().__init__(settings=settings)
        self._number = number

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        here = ["env", f"PYTHONPATH={Path(__file__).parents[2]}", python, "-m", "tests.differential.planted"]
        return [*here, str(self._number), *arguments]


def main() -> int:
    from ottla.cli.main import main as ottla

    number, *arguments = sys.argv[1:]
    with PLANTED[int(number)].planted():
        sys.argv = ["ottla", *arguments]
        return int(ottla() or 0)


if __name__ == "__main__":
    sys.exit(main())
