"""OffsetCommit requests that come again with other offsets: known by their bytes, and served without being decoded.

The ordinary path serves the first ones, and everything that is unexpected: it is the reference. What is kept of a
commit is its *shape*: all its bytes but the correlation id and the offsets, and what these bytes mean. The next request
of the connection that has the shape differs in those numbers alone. Before they are committed all that may have changed
is looked at: here topics and rules, and in `GroupCoordinator.commit_prepared` the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.offsets.prepared import PreparedCommit, prepare
from ottla.broker.runtime.audit import Audit, Told
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.framing import Gathered
from ottla.protocol.gaps import HIGH, LOW, layout_of, pieces_around, struct_of
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

MOST_BYTES = 32 << 20
"""Memory for the shapes of all connections."""
SHAPE_BYTES, PARTITION_BYTES = 7500, 640
"""What a shape takes besides its bytes, roughly, and what it takes more for each partition."""
LONGEST_BYTES = 4096
"""Longer requests are not kept."""
ALIKE = 8
"""So many shapes of a connection are equally long at most."""
LENGTHS, LENGTH_BYTES = 64, 256
"""So many lengths they have at most, and what it takes to remember one."""
TRIES, EARNED_BY = 16, 16
"""A connection may try so often to learn a shape, and once more for each so many commits that its shapes have served.
To learn one costs about as much as an ordinary commit."""

Encode = Callable[[Any, int], bytes | Gathered]


class PreparedCommits:
    """What the connections of a broker share for their prepared commits.

    Attributes:
        ordinary: reasons for which every commit takes the ordinary path, such as quotas, by which time is measured.
        number: shapes that were learned under another one do not count any more. Whoever changes what an ordinary
            commit is held against, and a prepared one is not, raises it (`changed`).
        audit: is told of offsets that are altered by others than members.
    """

    def __init__(
        self,
        groups: GroupCoordinator,
        host: Host,
        topics: TopicManager,
        clock: Clock,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.groups = groups
        self.host = host
        self.log = host.log_of(OFFSETS_TOPIC)
        self.topics = topics
        self.monotonic_ms, self.wall_ms = clock.monotonic_ms, clock.wall_ms
        self.audit = Audit()
        self.ordinary: dict[str, None] = {}
        self.number = 0
        self.held_bytes = 0
        self.most_bytes = most_bytes
        self._shapes: dict[Shape, Shapes] = {}  # the oldest first

    def changed(self) -> None:
        """Let every shape be learned anew."""
        self.number += 1

    def take_ordinary_path(self, reason: str, is_so: bool) -> None:
        """Let all commits take the ordinary path for a reason, or no longer."""
        if is_so:
            self.ordinary[reason] = None
        else:
            self.ordinary.pop(reason, None)

    def learn(
        self, data: bytes, start: int, body_at: int, request: OffsetCommitRequest, ctx: RequestContext, route: Any
    ) -> None:
        """Keep the shape of a commit that the ordinary path has just handed over to the log.

        A connection's first request of a length is only counted: its client may never send its like.

        Args:
            data: holds the request from ``start`` to its end, and its body from ``body_at`` on.
            route: comes back if serving one of the shape fails; encodes answers.
        """
        length = len(data) - start
        peer: Any = ctx.connection
        if self.ordinary or length > LONGEST_BYTES:
            return
        shapes = peer.prepared
        if shapes is None:
            shapes = peer.prepared = Shapes(self, peer)
        partitions = sum(len(topic.partitions) for topic in request.topics)
        held_bytes = SHAPE_BYTES + 4 * length + PARTITION_BYTES * partitions
        # Room first: to work out a shape of many partitions that then finds none costs more than it would ever save.
        if not shapes.wants(length) or not self._make_room(held_bytes):
            return
        body = _pieces(request, ctx)
        prepared = None if body is None else prepare(self.groups, request, ctx)
        if body is None or prepared is None:
            return
        shape = Shape(bytes(data[start:]), body_at - start, body, prepared, ctx, route, held_bytes)
        shape.number, shape.revision = self.number, self.topics.revision
        self._shapes[shape] = shapes
        self.held_bytes += held_bytes
        shapes.add(length, shape)

    def drop(self, shape: Shape) -> None:
        """Forget a shape that its connection has forgotten."""
        if self._shapes.pop(shape, None) is not None:
            self.held_bytes -= shape.held_bytes

    def _make_room(self, size_bytes: int) -> bool:
        """Forget the oldest shape that serves nobody, where there is no room. False if there is still none."""
        for _ in range(2):
            if self.held_bytes + size_bytes <= self.most_bytes:
                return True
            oldest = next(iter(self._shapes), None)
            if oldest is None:
                return False
            if oldest.is_used:
                oldest.is_used = False
                self._shapes[oldest] = self._shapes.pop(oldest)
            else:
                self._shapes[oldest].remove(oldest)
        return self.held_bytes + size_bytes <= self.most_bytes


class Shape:
    """One commit that may come again; see the module.

    Attributes:
        ctx: the request that is open, for one after the other: a connection has one at a time.
        unpack, fixed: split a request as long as this one into bytes and numbers, by turns; those bytes if it has the
            shape. The numbers are the correlation id and the offsets.
        is_used: it has served a commit since somebody was in need of room.
        is_of_no_member: the audit is told of each; of one it was told as ``told``.
    """

    __slots__ = ("_after", "_before", "_encode", "_pack", "body_at", "ctx", "fixed", "held_bytes",
                 "is_of_no_member", "is_used", "length", "number", "prepared", "revision", "route", "told",
                 "unpack")  # fmt: skip

    def __init__(
        self, frame: bytes, body_at: int, body: list[bytes], prepared: PreparedCommit, ctx: RequestContext, route: Any,
        held_bytes: int,
    ) -> None:  # fmt: skip
        pieces = [frame[8:body_at] + body[0], *body[1:]]
        self.unpack = struct_of(">4si" + layout_of(pieces)).unpack_from
        self.fixed = (frame[:4], *pieces)
        self._encode: Encode = route.encode
        answer = bytes(self._encode(prepared.answer, 0))
        self._before, self._after = answer[:4], answer[8:]
        self._pack = struct_of(f">4si{len(self._after)}s").pack
        self.ctx = RequestContext(ctx.connection, ctx.api_version, 0, ctx.client_id, self.answer)
        self.prepared = prepared
        self.route = route
        self.length, self.body_at = len(frame), body_at
        self.held_bytes = held_bytes
        self.is_used = False
        self.is_of_no_member = is_of_no_member(prepared.request)
        self.told: Told | None = None
        self.number = self.revision = 0

    def answer(self, response: Any, correlation_id: int) -> bytes | Gathered:
        """The frame of an answer."""
        if response is self.prepared.answer:
            return self._pack(self._before, correlation_id, self._after)
        return self._encode(response, correlation_id)


class Shapes:
    """The shapes of the commits of one connection.

    Args:
        peer: the connection, which has its open request as ``open``, and these as ``prepared``.

    Attributes:
        serving: the one whose request was served last.
    """

    __slots__ = ("_by_length", "_common", "_peer", "_served", "_tried", "serving")

    def __init__(self, common: PreparedCommits, peer: Any) -> None:
        self._common = common
        self._peer = peer
        self._by_length: dict[int, list[Shape]] = {}
        self._served = self._tried = 0
        self.serving: Shape | None = None

    def serve(self, frame: bytes, start: int) -> bool:
        """Serve a request that lies in ``frame`` from ``start`` on. False if it is one for the ordinary path."""
        alike = self._by_length.get(len(frame) - start)
        if not alike:
            return False
        for shape in alike:
            found = shape.unpack(frame, start)
            if found[::2] == shape.fixed:
                break
        else:
            return False
        common = self._common
        if common.ordinary:
            return False
        if shape.number != common.number or shape.revision != common.topics.revision:
            self.remove(shape)
            return False
        ctx = self._peer.open = shape.ctx
        self.serving = shape
        ctx.correlation_id = found[1]
        ctx.encoded = frame[start + shape.body_at :]
        wall_ms = common.wall_ms()
        write = common.groups.commit_prepared(shape.prepared, found[3::2], ctx, common.monotonic_ms(), wall_ms)
        if write is None:
            self._peer.open = None
            self.remove(shape)
            return False
        shape.is_used = True
        self._served += 1
        common.log.put(write.shard.partition, write, write.bodies)
        if common.host.outcomes:  # they are told after an ordinary commit, too
            common.host.settle()
        if shape.is_of_no_member and (shape.told is None or not common.audit.tell_again(shape.told, wall_ms)):
            shape.told = tell_altered(common.audit, ctx, shape.prepared.group_id)
        return True

    def wants(self, length: int) -> bool:
        """Whether the shape of a request is worth to be kept that none of ours has served."""
        alike = self._by_length.get(length)
        if alike is None:
            if len(self._by_length) < LENGTHS and self._common.held_bytes + LENGTH_BYTES <= self._common.most_bytes:
                self._by_length[length] = []
                self._common.held_bytes += LENGTH_BYTES
            return False
        self._tried += 1
        return self._tried <= TRIES + self._served // EARNED_BY

    def add(self, length: int, shape: Shape) -> None:
        """Keep a shape; the oldest of those that are as long gives way."""
        alike = self._by_length[length]
        if len(alike) >= ALIKE:
            self.remove(alike[-1])
        alike.insert(0, shape)

    def remove(self, shape: Shape) -> None:
        """Forget a shape."""
        self._by_length[shape.length].remove(shape)
        self._common.drop(shape)

    def forget(self) -> None:
        """Forget all of them: the connection is gone."""
        for alike in self._by_length.values():
            self._common.held_bytes -= LENGTH_BYTES
            for shape in alike:
                self._common.drop(shape)
        self._by_length.clear()


def is_of_no_member(request: OffsetCommitRequest) -> bool:
    """Whether somebody commits who is no member of a group: a consumer that assigns itself, or an administrator."""
    return request.generation_id_or_member_epoch < 0 and not request.member_id


def tell_altered(audit: Audit, ctx: RequestContext, group_id: str) -> Told | None:
    """Tell the audit that offsets of a group were altered by somebody who is no member."""
    return audit.tell_once("offsets_altered", ctx, group_id, group=group_id)


def _pieces(request: OffsetCommitRequest, ctx: RequestContext) -> list[bytes] | None:
    """The body of a request around its offsets; None of one that does not look as we would write it."""
    encode = OffsetCommitRequest.layout(ctx.api_version).encode
    if encode(request) != ctx.encoded:
        return None
    low, high = (
        encode(replace(request, topics=[
            replace(topic, partitions=[replace(one, committed_offset=number) for one in topic.partitions])
            for topic in request.topics
        ]))
        for number in (LOW, HIGH)
    )  # fmt: skip
    return pieces_around(low, high)
