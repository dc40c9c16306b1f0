"""Commits as they are noted. Nothing else that observers are told of is as frequent: the event is made when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ottla.broker.core.events.inputs import Commit, CommitReceived
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.primitives import ZERO_UUID

CommitNote: TypeAlias = tuple[
    int, int, int, int, str, str, bytes, OffsetCommitRequest, Mapping[tuple[str, int], ErrorCode], Sequence[int] | None
]
"""Number of the input, monotonic and Unix time (ms), the request's version, client id, client host, the request's bytes
without a header (none if they are not at hand), the request, what was refused before the group was looked at, and the
offsets, if they are not those of the request: it may be an earlier one that differs in nothing else."""


def commit_event(note: CommitNote) -> CommitReceived:
    """The event that a note stands for."""
    number, at_ms, wall_ms, api_version, client_id, client_host, _, request, refused, offsets = note
    others = iter(offsets or ())
    commits = []
    for topic in request.topics:
        name, topic_id = topic.name, b"" if topic.topic_id is ZERO_UUID else topic.topic_id.bytes
        for item in topic.partitions:
            commits.append(
                Commit(
                    name,
                    item.partition_index,
                    next(others, item.committed_offset),
                    item.committed_leader_epoch,
                    item.committed_metadata,
                    refused.get((name, item.partition_index), 0) if refused else 0,
                    item.commit_timestamp,
                    -1,
                    topic_id,
                )
            )
    return CommitReceived(
        group_id=request.group_id,
        cause=0,
        at_ms=at_ms,
        wall_ms=wall_ms,
        number=number,
        api="OffsetCommit",
        api_version=api_version,
        client_id=client_id,
        client_host=client_host,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        reason=None,
        commits=commits,
        retention_ms=request.retention_time_ms,
    )
