"""Counts what clients use against their quotas, and mutes those who exceed one (KIP-13, KIP-124, KIP-219, KIP-599).

An answer goes out at once and says how long the client must wait; for so long nothing is read from its connection.
There is a timer for each connection that is muted, and none otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import MeteredContext, Mute
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.steps import Steps

_PERCENT_PER_NS = 100 / 1_000_000_000
_EXEMPT = frozenset({ApiKey.WRITE_TXN_MARKERS})
"""Brokers ask it of each other: nobody is made to wait."""


class ConnectionMeter:
    """The meter of all connections; see `ottla.broker.context.Meter`.

    Args:
        nanoseconds: a clock for how long requests take.
    """

    def __init__(self, quotas: ClientQuotas, clock: Clock, nanoseconds: Callable[[], int]) -> None:
        self.quotas = quotas
        self._clock = clock
        self.nanoseconds = nanoseconds
        self._mutes: dict[Mute, TimerHandle] = {}
        self._ending = False

    def most_fetched(self, ctx: MeteredContext) -> int:
        return self.quotas.fetch.most_at_once(ctx.session.user, ctx.client_id)

    def fetched(self, ctx: MeteredContext, response: Any) -> int:
        # Kafka counts the body of the answer with four bytes in front.
        header_bytes = api(ApiKey.FETCH).response_header_version(ctx.api_version)
        size = len(ctx.encode(response)) - 4 - header_bytes
        now_ms = self._clock.monotonic_ms()
        wait_ms = max(self._spent(ctx, now_ms), self.quotas.fetch.record(ctx.session.user, ctx.client_id, size, now_ms))
        if wait_ms:
            self.quotas.fetch.take_back(ctx.session.user, ctx.client_id, size, now_ms)
            ctx.owed_ms = wait_ms
        return wait_ms

    def mutates(self, ctx: MeteredContext, partitions: int, *, strict: bool, waits: bool = True) -> bool:
        now_ms = self._clock.monotonic_ms()
        wait_ms = self.quotas.mutation.permit(ctx.session.user, ctx.client_id, partitions, now_ms, strict=strict)
        if waits:
            ctx.owed_ms = max(ctx.owed_ms, wait_ms)
        return not (strict and wait_ms)

    def reply(self, ctx: MeteredContext, response: Any) -> None:
        response, wait_ms = self._owed(ctx, response)
        ctx.connection.finish(ctx, ctx.encode(response))
        self._mute(ctx, wait_ms)

    def reply_in_steps(self, ctx: MeteredContext, response: Any) -> Steps[None]:
        response, wait_ms = self._owed(ctx, response)
        frame = yield from ctx.encode_in_steps(response)
        if not ctx.closed:
            ctx.connection.finish(ctx, frame)
        self._mute(ctx, wait_ms)

    def _owed(self, ctx: MeteredContext, response: Any) -> tuple[Any, int]:
        """The answer, which tells the client how long it must wait, and how many milliseconds that is."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = max(ctx.owed_ms, self._spent(ctx, now_ms), self._produced(ctx, now_ms))
        if wait_ms and hasattr(response, "throttle_time_ms"):
            response = copy.copy(response)  # some are shared
            response.throttle_time_ms = wait_ms
        return response, wait_ms

    def no_reply(self, ctx: MeteredContext) -> None:
        wait_ms = self._produced(ctx, self._clock.monotonic_ms())
        ctx.connection.finish(ctx, None)
        self._mute(ctx, wait_ms)

    def _produced(self, ctx: MeteredContext, now_ms: int) -> int:
        if ctx.api_key != ApiKey.PRODUCE:
            return 0
        return self.quotas.produce.record(ctx.session.user, ctx.client_id, ctx.size_bytes, now_ms)

    def _spent(self, ctx: MeteredContext, now_ms: int) -> int:
        """Count the time that a request took. What it waited for others does not count."""
        if ctx.charged or ctx.api_key in _EXEMPT:
            return 0
        ctx.charged = True
        spent_ns = self.nanoseconds() - ctx.began_ns if ctx.spent_ns is None else ctx.spent_ns
        return self.quotas.request.record(ctx.session.user, ctx.client_id, spent_ns * _PERCENT_PER_NS, now_ms)

    def _mute(self, ctx: MeteredContext, wait_ms: int) -> None:
        if wait_ms <= 0 or ctx.closed or self._ending:
            return
        mute = Mute(ctx.connection)

        def end() -> None:
            self._mutes.pop(mute).cancel()
            if not mute.closed:
                mute.connection.finish(mute, None)

        mute.on_close = end
        self._mutes[mute] = self._clock.call_at(self._clock.monotonic_ms() + wait_ms, end)
        ctx.connection.mute(mute)

    def unmute_all(self) -> None:
        """Nobody needs to wait any longer, nor from now on: the broker stops."""
        self._ending = True
        for mute in list(self._mutes):
            if mute.on_close is not None:
                mute.on_close()
