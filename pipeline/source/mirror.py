"""The stream's progress as committed offsets of a group, so that it appears where all groups are watched (raw only)."""

from __future__ import annotations

import logging

from ottla.clients.errors import KafkaError, check
from ottla.clients.partitions import committable
from ottla.clients.structs import OffsetAndMetadata
from ottla.pipeline.source.cluster import Cluster
from ottla.pipeline.source.connection import Connection
from ottla.pipeline.source.offsets import Progress
from ottla.pipeline.source.options import Options
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

log = logging.getLogger("ottla.pipeline.source")


class Mirror:
    """Commits for ``options.group``, without being a member of it; what goes wrong is a warning and no more."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._cluster = Cluster(options)
        self._coordinator: Connection | None = None

    def commit(self, progress: Progress) -> None:
        """Commit all offsets."""
        try:
            try:
                self._commit(progress)
            except KafkaError as error:
                if not error.retriable:
                    raise
                # Brokers close what was idle for ten minutes, and groups move: once more, on a new connection.
                self.close()
                self._commit(progress)
        except KafkaError as error:
            log.warning("%s: could not mirror progress to group %r: %s", self.options.where, self.options.group, error)
            self.close()

    def close(self) -> None:
        """Close connections."""
        self._coordinator = None
        self._cluster.close()

    def _commit(self, progress: Progress) -> None:
        offsets = {tp: OffsetAndMetadata(offset, "spark") for tp, offset in progress.next.items()}
        if not offsets:
            return
        topics = committable(offsets, OffsetCommitRequestTopic, OffsetCommitRequestPartition)
        request = OffsetCommitRequest(group_id=self.options.group, topics=topics)
        answer = self._find().call(request, low=2, high=9)
        for topic in answer.topics:
            for one in topic.partitions:
                check(one.error_code, f"commit {topic.name}-{one.partition_index}")

    def _find(self) -> Connection:
        if self._coordinator is None:
            # From version 4 on an answer is a list (KIP-699).
            request = FindCoordinatorRequest(key=self.options.group)
            answer = self._cluster.any_connection().call(request, high=3)
            check(answer.error_code, "find the coordinator", answer.error_message)
            self._coordinator = self._cluster.connect((answer.host, answer.port))
        return self._coordinator
