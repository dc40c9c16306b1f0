"""Records of the group coordinator on their way to ``__consumer_offsets``, several writes to a batch.

A thousand clients that commit in the same turn of the event loop are a few dozen batches and not a thousand. A batch is
atomic and the writes in it fail or succeed together, in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ottla.broker.clock import Clock
from ottla.broker.core.effects import Append
from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import EngineError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import BatchBuilder, BatchError

FULL_BYTES = 64 << 10
"""Keys and values of this size together make a batch that is not kept waiting for more."""


class Report(Protocol):
    """Where what went wrong outside of requests is told."""

    def error(self, event: str, **fields: Any) -> Any: ...


Defer = Callable[[Callable[[], None]], object]
"""Calls back before the event loop looks at its sockets again."""

Outcome = Callable[[list[object], ErrorCode], None]
"""Told of the tokens of writes that are over."""


class CoordinatorAppends:
    """Collects writes by partition and appends them.

    Args:
        offsets: a partition of ``__consumer_offsets``.
        max_batch_bytes: a single write that makes a larger batch is refused, as the log would refuse it.
        defer: None appends everything at once.
        outcome: called for writes that could not be appended, maybe within ``add``, and later for those that were.
    """

    def __init__(
        self,
        offsets: Callable[[int], Partition],
        clock: Clock,
        *,
        max_batch_bytes: int,
        defer: Defer | None,
        outcome: Outcome,
        report: Report,
    ) -> None:
        self._offsets = offsets
        self._clock = clock
        self._max_batch_bytes = max_batch_bytes
        self._defer = defer
        self._outcome = outcome
        self._report = report
        self._queued: dict[int, list[Append]] = {}
        self._bytes: dict[int, int] = {}
        self._is_due = False

    def add(self, effect: Append) -> None:
        """Append these records, with others of the same turn."""
        partition = effect.partition
        if effect.producer_id >= 0:
            self.flush(partition)
            self._append_transactional(effect)
            return
        self._queued.setdefault(partition, []).append(effect)
        size = self._bytes.get(partition, 0)
        for record in effect.records:
            size += len(record.key) + len(record.value or b"")
        self._bytes[partition] = size
        if self._defer is None or size >= FULL_BYTES:
            self.flush(partition)
        elif not self._is_due:
            self._is_due = True
            self._defer(self.flush_all)

    def flush_all(self) -> None:
        """Append everything that waits."""
        self._is_due = False
        for partition in list(self._queued):
            self.flush(partition)

    def flush(self, partition: int) -> None:
        """Append what waits for one partition: what is appended to it otherwise must not overtake."""
        effects = self._queued.pop(partition, None)
        self._bytes.pop(partition, None)
        if effects and not self._append(partition, effects):
            for effect in effects:
                if len(effects) == 1 or not self._append(partition, [effect]):
                    self._outcome([effect.token], ErrorCode.MESSAGE_TOO_LARGE)

    def _append(self, partition: int, effects: list[Append]) -> bool:
        """Append writes as one batch; False if it would be too large."""
        wall_ms = self._clock.wall_ms()
        builder = BatchBuilder()
        for effect in effects:
            for record in effect.records:
                builder.append(record.key, record.value, wall_ms)
        batch = builder.build()
        if len(batch) > self._max_batch_bytes:
            return False
        tokens = [effect.token for effect in effects]
        try:
            self._offsets(partition).log.append(
                batch, count=builder.count, max_timestamp_ms=wall_ms, done=partial(self._done, tokens)
            )
        except EngineError as error:
            self._refused(tokens, error)
        return True

    def _append_transactional(self, effect: Append) -> None:
        wall_ms = self._clock.wall_ms()
        builder = BatchBuilder(is_transactional=True)
        for record in effect.records:
            builder.append(record.key, record.value, wall_ms)
        batch = builder.build(producer_id=effect.producer_id, producer_epoch=effect.producer_epoch)
        tokens = [effect.token]
        if len(batch) > self._max_batch_bytes:
            self._outcome(tokens, ErrorCode.MESSAGE_TOO_LARGE)
            return
        try:
            self._offsets(effect.partition).append_offsets(
                batch, wall_ms, partial(self._settled, tokens), effect.verified
            )
        except BatchError as error:
            self._outcome(tokens, error.error_code)
        except EngineError as error:
            self._refused(tokens, error)

    def _refused(self, tokens: list[object], error: EngineError) -> None:
        self._report.error("coordinator records were refused", reason=str(error))
        self._outcome(tokens, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _done(self, tokens: list[object], base_offset: int, error: Exception | None) -> None:
        self._outcome(tokens, ErrorCode.NONE if error is None else ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _settled(self, tokens: list[object], base_offset: int, error: ErrorCode) -> None:
        self._outcome(tokens, ErrorCode.COORDINATOR_NOT_AVAILABLE if error else ErrorCode.NONE)
