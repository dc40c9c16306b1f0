"""Whom a quota concerns, what counts for it, and what counts for nobody."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ottla.broker.core.quotas.entities import Entity, Quotas, entity_of
from ottla.broker.core.quotas.limits import AddressThrottle, ClientQuotas, Limits, Meters
from ottla.broker.core.quotas.rates import Rate, Window
from ottla.broker.settings import INT32_MAX, Settings
from tests.support.memory import allocations

KEY = "producer_byte_rate"


def of(**entity: str | None) -> Entity:
    return entity_of((kind.replace("_", "-"), name) for kind, name in entity.items())


BY_WEIGHT: list[tuple[Entity, tuple[str, str]]] = [
    (of(user="u", client_id="c"), ("u", "c")),
    (of(user="u", client_id=None), ("u", "c")),
    (of(user="u"), ("u", "")),
    (of(user=None, client_id="c"), ("u", "c")),
    (of(user=None, client_id=None), ("u", "c")),
    (of(user=None), ("u", "")),
    (of(client_id="c"), ("", "c")),
    (of(client_id=None), ("", "c")),
]
"""The quotas of client c of user u, the most specific first, and the client that each one counts for (KIP-55)."""


@pytest.mark.parametrize("chosen", list(itertools.product((False, True), repeat=8)))
def test_the_most_specific_quota_counts(chosen: tuple[bool, ...]) -> None:
    set_ = [(entity, tags, number) for number, (entity, tags) in enumerate(BY_WEIGHT, 1) if chosen[number - 1]]
    limits = Limits({entity: {KEY: float(number)} for entity, _, number in set_}, KEY)
    assert bool(limits) == bool(set_)
    tags = limits.tags("u", "c")
    if set_:
        _, wanted, number = set_[0]
        assert tags == wanted
        assert limits.of(tags) == number
    else:
        assert tags == ("", "c")
        assert limits.of(tags) is None


def test_quotas_of_others_and_of_other_kinds_do_not_count() -> None:
    quotas = {
        of(user="v"): {KEY: 1.0},
        of(user="v", client_id="c"): {KEY: 1.0},
        of(client_id="d"): {KEY: 1.0},
        of(client_id="c"): {"consumer_byte_rate": 1.0},
    }
    limits = Limits(quotas, KEY)
    assert limits.of(limits.tags("u", "c")) is None
    assert limits.of(limits.tags("v", "c")) == 1.0
    assert not Limits({of(client_id="c"): {"consumer_byte_rate": 1.0}}, KEY)


def test_a_client_without_an_id_has_the_quota_of_its_user_only() -> None:
    limits = Limits({of(user="u", client_id=None): {KEY: 5.0}, of(client_id=None): {KEY: 1.0}}, KEY)
    assert limits.of(limits.tags("u", "")) is None
    assert limits.of(limits.tags("w", "")) is None
    limits = Limits({of(user="u"): {KEY: 5.0}}, KEY)
    assert limits.of(limits.tags("u", "")) == 5.0


def quotas(**rows: float) -> Quotas:
    return {of(client_id="c"): dict(rows)}


def clients(settings: Settings | None = None, **rows: float) -> ClientQuotas:
    made = ClientQuotas(settings or Settings())
    made.set(quotas(**rows), {})
    return made


def test_without_quotas_nothing_is_counted() -> None:
    nobody = ClientQuotas(Settings())
    assert not nobody.of_requests
    for throttle in (nobody.produce, nobody.fetch, nobody.request):
        assert throttle.record("u", "c", 1e12, 0) == 0
        throttle.take_back("u", "c", 1e12, 0)
        assert throttle.most_at_once("u", "c") == INT32_MAX
        assert len(throttle.meters) == 0
    assert nobody.mutation.permit("u", "c", 1000, 0, strict=True) == 0
    assert len(nobody.mutation.meters) == 0
    assert nobody.addresses.opened("10.0.0.1", 0) == 0


def test_bytes_are_waited_for() -> None:
    some = clients(producer_byte_rate=1_000)
    assert some.of_requests
    assert some.produce.record("u", "c", 10_000, 0) == 0
    assert some.produce.record("u", "c", 500, 0) == 500
    assert some.produce.record("u", "d", 1e9, 0) == 0
    assert some.fetch.record("u", "c", 1e9, 0) == 0


def test_what_was_counted_counts_for_another_limit_too() -> None:
    some = clients(producer_byte_rate=1e6)
    assert some.produce.record("u", "c", 20_000, 0) == 0
    some.set(quotas(producer_byte_rate=1_000.0), {})
    assert some.produce.record("u", "c", 1, 0) == 10_001
    some.set({}, {})
    assert some.produce.record("u", "c", 1e9, 0) == 0


def test_a_fetch_that_is_taken_back_is_not_waited_for_twice() -> None:
    some = clients(consumer_byte_rate=1_000)
    assert some.fetch.most_at_once("u", "c") == 10_000
    assert some.fetch.record("u", "c", 9_000, 0) == 0
    assert some.fetch.record("u", "c", 2_000, 0) == 1_000
    some.fetch.take_back("u", "c", 2_000, 0)
    assert some.fetch.record("u", "c", 1_000, 0) == 0


def test_the_most_at_once_goes_by_the_windows() -> None:
    settings = Settings(quota_window_num=3, quota_window_size_seconds=5)
    assert clients(settings, consumer_byte_rate=7).fetch.most_at_once("u", "c") == 70
    assert clients(settings, consumer_byte_rate=1e15).fetch.most_at_once("u", "c") == INT32_MAX
    assert clients(settings, consumer_byte_rate=7).fetch.most_at_once("u", "d") == INT32_MAX


def test_nobody_waits_longer_than_a_window_for_time() -> None:
    some = clients(request_percentage=1)
    assert some.request.record("u", "c", 5_000, 0) == 1_000
    assert (
        clients(Settings(quota_window_size_seconds=3), request_percentage=1).request.record("u", "c", 9e9, 0) == 3_000
    )


def test_partitions_are_refused_to_those_who_know_of_it_and_waited_for_by_others() -> None:
    some = clients(controller_mutation_rate=1)
    permit: Any = some.mutation.permit
    assert permit("u", "c", 6, 0, strict=True) == 0
    assert permit("u", "c", 6, 0, strict=True) == 0  # the bucket had some left
    assert permit("u", "c", 6, 0, strict=True) == 1_000
    assert permit("u", "c", 6, 1_000, strict=True) == 0  # what was refused was not counted
    assert permit("u", "c", 6, 1_000, strict=False) == 12_000
    assert permit("u", "d", 1_000, 0, strict=True) == 0


def test_addresses_have_their_own_quota_or_that_of_all() -> None:
    some = ClientQuotas(Settings())
    ip = {of(ip="10.0.0.1"): {"connection_creation_rate": 2.0}, of(ip=None): {"connection_creation_rate": 1.0},
          of(ip="near"): {"connection_creation_rate": 3.0}}  # fmt: skip
    some.set(ip, {"near": "::1"})
    assert some.addresses.limits == {"10.0.0.1": 2, None: 1, "::1": 3}
    assert not some.of_requests
    opened = some.addresses.opened
    assert [opened("10.0.0.9", 0) for _ in range(12)] == [0] * 10 + [1_000, 1_000]
    assert [opened("10.0.0.1", 0) for _ in range(21)] == [0] * 20 + [500]
    assert opened("10.0.0.9", 500) == 500  # those that were turned away did not count
    assert opened("10.0.0.9", 11_500) == 0


def test_a_connection_waits_for_a_window_at_most() -> None:
    throttle = AddressThrottle(Window(2, 1000))
    throttle.limits = {None: 1}
    assert [throttle.opened("a", 0) for _ in range(3)] == [0, 1_000, 1_000]


def test_those_who_are_gone_are_forgotten() -> None:
    meters: Meters[Rate] = Meters(lambda: Rate(Window(11, 1000)))
    for number in range(999):
        meters.of(("", f"c{number}"), 0)
    kept = meters.of(("", "c7"), 3_000_000)
    meters.of(("", "new"), 4_000_000)
    assert len(meters) == 2
    assert meters.of(("", "c7"), 4_000_000) is kept


def test_those_who_have_no_quota_have_no_meter() -> None:
    some = clients(producer_byte_rate=1, request_percentage=1, controller_mutation_rate=1)
    for throttle in (some.produce, some.request):
        assert throttle.record("u", "d", 1e9, 0) == 0
        throttle.take_back("u", "d", 1e9, 0)
        assert len(throttle.meters) == 0
    assert some.mutation.permit("u", "d", 1_000, 0, strict=True) == 0
    assert len(some.mutation.meters) == 0


def test_of_too_many_meters_the_one_that_was_not_used_for_longest_goes() -> None:
    meters: Meters[Rate] = Meters(lambda: Rate(Window(11, 1000)))
    kept, lost = meters.of(("", "kept"), 0), meters.of(("", "lost"), 0)
    for number in range(9_998):
        meters.of(("", f"c{number}"), 1)
    assert meters.of(("", "kept"), 2) is kept
    assert len(meters) == 10_000
    meters.of(("", "new"), 3)
    assert len(meters) == 10_000
    assert meters.of(("", "kept"), 4) is kept
    assert meters.of(("", "lost"), 4) is not lost


def test_long_ids_are_told_apart_and_not_kept() -> None:
    some = ClientQuotas(Settings())
    some.set({of(client_id=None): {"producer_byte_rate": 1_000.0}}, {})
    with allocations() as allocated:
        for number in range(200):
            assert some.produce.record("u", "x" * 30_000 + str(number), 10_000, 0) == 0
    assert allocated.held_bytes < 1_000_000
    assert len(some.produce.meters) == 200
    assert some.produce.record("u", "x" * 30_000 + "7", 500, 0) == 500
