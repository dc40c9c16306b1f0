"""No frame takes long to decode, or to refuse, whatever is in it: made from the table of APIs itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.handlers import HANDLERS, handler
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.primitives import MAX_ITEMS, uuid_of
from ottla.protocol.schema import PATH_BYTES
from ottla.protocol.steps import finished
from tests.hostile.costly_frames import costly_bodies

ITEMS = 1_000
"""So many are decoded, and what they took is what as many as a message may hold would take in proportion."""

MOST_S = 1.5
"""No message takes more. The costliest takes 0.4 s on a quiet machine; it took 3 s, and tags had no bound."""


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Of CPU; the best of some. No id was seen before."""
    best = float("inf")
    for _ in range(times):
        uuid_of.cache_clear()
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def refusal(layout: Any, body: bytes) -> str:
    with pytest.raises(MalformedFrame) as refused:
        layout.decode(body)
    return str(refused.value)


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_what_a_message_may_hold_is_soon_decoded(key: ApiKey) -> None:
    for version in api(key).request.versions:
        layout = api(key).request.layout(version)
        decode = layout.decoder
        for what, body in costly_bodies(layout, ITEMS):
            took_s = seconds(lambda decode=decode, body=body: decode(body, 0))  # type: ignore[misc]
            assert took_s / ITEMS * MAX_ITEMS < MOST_S, f"version {version}: {what}"


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_in_steps_a_message_is_decoded_as_at_once(key: ApiKey) -> None:
    layout = api(key).request.layout(handler(key).versions[-1])
    for what, body in costly_bodies(layout, 2_000):
        assert finished(layout.decoder_in_steps(body, 0)) == layout.decode(body), what
        with pytest.raises(MalformedFrame, match=layout.message.__name__):
            finished(layout.decoder_in_steps(body[:-1], 0))


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_one_item_more_is_refused(key: ApiKey) -> None:
    layout = api(key).request.layout(handler(key).versions[-1])
    for what, body in costly_bodies(layout, MAX_ITEMS + 1):
        if not what.endswith("/1"):
            assert "items" in refusal(layout, body), what


def test_who_sends_garbage_does_not_have_it_decoded_twice() -> None:
    """The last byte is missing: refused as quickly as it would have been read, though nobody can say where."""
    for key in (ApiKey.METADATA, ApiKey.OFFSET_COMMIT):
        layout = api(key).request.layout(handler(key).versions[-1])
        for what, body in costly_bodies(layout, 9_000):
            assert len(body) > PATH_BYTES
            right_s = seconds(lambda layout=layout, body=body: layout.decode(body))  # type: ignore[misc]
            wrong_s = seconds(lambda layout=layout, body=body: refusal(layout, body[:-1]))  # type: ignore[misc]
            assert wrong_s < 3 * right_s + 0.01, what


def test_where_the_field_is_told_it_is_soon_found() -> None:
    layout = api(ApiKey.DESCRIBE_TOPIC_PARTITIONS).request.layout(0)
    for what, body in costly_bodies(layout, PATH_BYTES // 2 - 20):
        assert refusal(layout, body[:-1]).startswith("DescribeTopicPartitionsRequest."), what
        assert seconds(lambda body=body: refusal(layout, body[:-1])) < 0.5, what  # type: ignore[misc]
