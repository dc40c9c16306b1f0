"""The steps of scenarios that are about transactions."""

from __future__ import annotations

import re
from typing import Any

from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.core.scenario_text import Client
from tests.core.world import World


class TransactionSteps:
    """Mixed into `tests.core.scenario.Play`."""

    def _client(self, name: str, options: dict[str, str], *, keep: bool = False) -> Client:
        raise NotImplementedError

    def do_txn_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``txn-commit CLIENT TOPIC-PARTITION=OFFSET[:METADATA] … [producer= epoch= generation= id= v=]``"""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for option in [name for name in options if re.fullmatch(r".+-\d+", name)]:
            topic, _, partition = option.rpartition("-")
            offset, _, note = options.pop(option).partition(":")
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=int(partition), committed_offset=int(offset), committed_metadata=note
                )
            )
        client = self._client(words[0], options)
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=client.group.replace("''", ""),
            producer_id=int(options.get("producer", 1)),
            producer_epoch=int(options.get("epoch", 0)),
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=items) for name, items in topics.items()],
        )
        world.ask(client.name, "commit_transactional_offsets", request, int(options.get("v", 5)))

    def do_end_txn(self, world: World, words: list[str], options: dict[str, Any]) -> None:
        """``end-txn PRODUCER commit|abort [group=]``: the marker is in the log of the group's partition."""
        partition = coordinator_partition(options.get("group", "g"), world.partition_count)
        world.end_transaction(partition, int(words[0]), commit=words[1] == "commit")
