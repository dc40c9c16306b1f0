"""The limits of clients: whom a request counts for, how much they had, and how long they must wait now.

A request is counted for a user, for a client id of any user, or for both together, whichever the most specific quota
that concerns it is set for (KIP-55). Who exceeds a quota is served at once and told how long it will take for their
rate to come down to it; for so long nothing more is read from them (KIP-219).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Generic, TypeVar

from ottla.broker.core.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Quotas,
)
from ottla.broker.core.quotas.rates import Rate, TokenBucket, Window
from ottla.broker.settings import INT32_MAX, Settings

Tags = tuple[str, str]
"""The client that something counts for: the user and the client id; empty for any."""

M = TypeVar("M", Rate, TokenBucket)

_Key = tuple[str, str | bytes]

_EVERYBODY = None
_IDLE_MS = 3_600_000
_MOST_METERS = 10_000
_LONG_ID = 64
"""Of a client id that is longer than that a meter keeps a hash only: clients choose their ids."""


class Meters(Generic[M]):
    """One meter for each of those who are counted.

    What was idle for an hour is forgotten, and of too many the one that was not used for longest.
    """

    def __init__(self, new: Callable[[], M]) -> None:
        self._new: Callable[[], M] = new
        self._meters: OrderedDict[_Key, tuple[M, int]] = OrderedDict()
        """Each with when it was last used; in that order."""

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, tags: Tags, now_ms: int) -> M:
        """The meter of somebody."""
        user, name = tags
        key = tags if len(name) <= _LONG_ID else (user, blake2b(name.encode(), digest_size=16).digest())
        found = self._meters.pop(key, None)
        if found is None:
            self._make_room(now_ms)
        meter = self._new() if found is None else found[0]
        self._meters[key] = meter, now_ms
        return meter

    def _make_room(self, now_ms: int) -> None:
        meters = self._meters
        while meters and (len(meters) >= _MOST_METERS or now_ms - meters[next(iter(meters))][1] >= _IDLE_MS):
            meters.popitem(last=False)


class Limits:
    """The quotas of one kind, by user and client id; None stands for everybody else."""

    __slots__ = ("_of_clients", "_of_pairs", "_of_users")

    def __init__(self, quotas: Quotas, key: str) -> None:
        self._of_users: dict[str | None, float] = {}
        self._of_clients: dict[str | None, float] = {}
        self._of_pairs: dict[tuple[str | None, str | None], float] = {}
        for entity, values in quotas.items():
            if (value := values.get(key)) is None:
                continue
            names = dict(entity)
            if names.keys() == {USER, CLIENT_ID}:
                self._of_pairs[names[USER], names[CLIENT_ID]] = value
            elif USER in names:
                self._of_users[names[USER]] = value
            elif CLIENT_ID in names:
                self._of_clients[names[CLIENT_ID]] = value

    def __bool__(self) -> bool:
        return bool(self._of_users or self._of_clients or self._of_pairs)

    def tags(self, user: str, client_id: str) -> Tags:
        """The client that a request counts for."""
        pairs, users = self._of_pairs, self._of_users
        if (user, client_id) in pairs or (user, _EVERYBODY) in pairs:
            return user, client_id
        if user in users:
            return user, ""
        if (_EVERYBODY, client_id) in pairs or (_EVERYBODY, _EVERYBODY) in pairs:
            return user, client_id
        if _EVERYBODY in users:
            return user, ""
        return "", client_id

    def of(self, tags: Tags) -> float | None:
        """The limit of clients that are counted together."""
        user, client_id = tags
        if user and client_id:
            pairs = self._of_pairs
            asked = (user, client_id), (user, _EVERYBODY), (_EVERYBODY, client_id), (_EVERYBODY, _EVERYBODY)
            return next((pairs[pair] for pair in asked if pair in pairs), None)
        if user:
            return self._of_users.get(user, self._of_users.get(_EVERYBODY))
        if client_id:
            return self._of_clients.get(client_id, self._of_clients.get(_EVERYBODY))
        return None


class Throttle(Generic[M]):
    """One kind of quota and what was counted for it. Off, and free, while no such quota is set."""

    def __init__(self, key: str, window: Window, new: Callable[[], M]) -> None:
        self.key = key
        self.window = window
        self.meters: Meters[M] = Meters(new)
        self.limits = Limits({}, key)

    @property
    def on(self) -> bool:
        """True if any quota of this kind is set."""
        return bool(self.limits)

    def _who(self, user: str, client_id: str, now_ms: int) -> tuple[M, float] | None:
        """The meter of somebody and what they may have; None, and no meter, for those who have no quota."""
        tags = self.limits.tags(user, client_id)
        limit = self.limits.of(tags)
        return None if limit is None else (self.meters.of(tags, now_ms), limit)


class RateThrottle(Throttle[Rate]):
    """A quota of something a second. ``longest_ms`` bounds how long anybody is told to wait."""

    def __init__(self, key: str, window: Window, longest_ms: int = INT32_MAX) -> None:
        super().__init__(key, window, lambda: Rate(window))
        self.longest_ms = longest_ms

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count something; returns for how many milliseconds the client must wait."""
        if not self.limits or (who := self._who(user, client_id, now_ms)) is None:
            return 0
        rate, limit = who
        rate.record(value, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self.longest_ms)

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Take back what was counted, as it did not happen."""
        if self.limits and (who := self._who(user, client_id, now_ms)) is not None:
            who[0].record(-value, now_ms)

    def most_at_once(self, user: str, client_id: str) -> int:
        """The most that counts at once without a wait, for a client that had nothing lately."""
        if not self.limits:
            return INT32_MAX
        limit = self.limits.of(self.limits.tags(user, client_id))
        if limit is None:
            return INT32_MAX
        window = self.window
        return int(min(limit * (window.samples - 1) * (window.sample_ms // 1000), INT32_MAX))


class MutationThrottle(Throttle[TokenBucket]):
    """The quota of partitions that are created and deleted (KIP-599)."""

    def __init__(self, window: Window) -> None:
        super().__init__(CONTROLLER_MUTATION_RATE, window, lambda: TokenBucket(window))

    def permit(self, user: str, client_id: str, count: int, now_ms: int, *, strict: bool) -> int:
        """Count partitions; returns for how many milliseconds the client must wait.

        Args:
            strict: nothing is counted for those who have to wait: they are to be refused. Else the count may be what
                they have to wait for.
        """
        if not self.limits or (who := self._who(user, client_id, now_ms)) is None:
            return 0
        bucket, limit = who
        if strict and (wait_ms := bucket.throttle_ms(limit, now_ms)):
            return wait_ms
        bucket.take(count, limit, now_ms)
        return 0 if strict else bucket.throttle_ms(limit, now_ms)


class AddressThrottle:
    """The quota of connections that an address opens (KIP-612)."""

    def __init__(self, window: Window) -> None:
        self.limits: Mapping[str | None, int] = {}
        self._window = window
        self._meters: Meters[Rate] = Meters(lambda: Rate(window))

    def opened(self, address: str, now_ms: int) -> int:
        """Count a connection; returns for how many milliseconds it must wait. One that must is not counted."""
        limit = self.limits.get(address, self.limits.get(_EVERYBODY))
        if limit is None:
            return 0
        rate = self._meters.of((address, ""), now_ms)
        rate.record(1, now_ms)
        wait_ms = min(rate.throttle_ms(limit, now_ms), self._window.sample_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms


class ClientQuotas:
    """Every kind of quota.

    Attributes:
        produce: bytes of requests; fetch: bytes of answers; request: the part of a processor's time, in percent;
            mutation: partitions created and deleted; addresses: connections by address.
    """

    def __init__(self, settings: Settings) -> None:
        window = Window(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        slow = Window(settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000)
        self.produce = RateThrottle(PRODUCER_BYTE_RATE, window)
        self.fetch = RateThrottle(CONSUMER_BYTE_RATE, window)
        self.request = RateThrottle(REQUEST_PERCENTAGE, window, longest_ms=window.sample_ms)
        self.mutation = MutationThrottle(slow)
        self.addresses = AddressThrottle(window)

    @property
    def of_requests(self) -> bool:
        """True if requests have to be measured."""
        return self.produce.on or self.fetch.on or self.request.on or self.mutation.on

    def set(self, quotas: Quotas, addresses: Mapping[str, str]) -> None:
        """Go by other quotas from now on. What was counted stays counted.

        Args:
            addresses: of the names of ``ip`` entities that are no addresses themselves.
        """
        for throttle in (self.produce, self.fetch, self.request, self.mutation):
            throttle.limits = Limits(quotas, throttle.key)
        limits: dict[str | None, int] = {}
        for entity, values in quotas.items():
            if entity and entity[0][0] == IP and CONNECTION_CREATION_RATE in values:
                name = entity[0][1]
                limits[None if name is None else addresses.get(name, name)] = int(values[CONNECTION_CREATION_RATE])
        self.addresses.limits = limits
