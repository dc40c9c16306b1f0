"""The quotas that each entity may have, and the entities that a filter finds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest

from ottla.broker.core.quotas.entities import (
    QuotaChange,
    Quotas,
    entity_of,
    plan,
    quotas_from_state,
    quotas_state,
)
from ottla.broker.core.quotas.filters import Filter, filter_of
from ottla.broker.core.refusal import Refusal
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

C = (("client-id", "c"),)
D = (("client-id", "d"),)
RATE = "producer_byte_rate"


def change(*changes: QuotaChange, quotas: Quotas | None = None) -> tuple[Quotas, dict[object, int]]:
    changed, refusals = plan(quotas or {}, changes, {"10.0.0.1", "::1"})
    return changed, {entity: refusal.error_code if refusal else 0 for entity, refusal in refusals.items()}


def test_parts_have_an_order_and_the_last_of_a_type_counts() -> None:
    assert entity_of([("user", "u"), ("client-id", None)]) == (("client-id", None), ("user", "u"))
    assert entity_of([("user", "u"), ("user", "v")]) == (("user", "v"),)


def test_values_are_set_replaced_and_removed() -> None:
    quotas, codes = change(QuotaChange(C, [(RATE, 5.0), ("request_percentage", 0.5)]))
    assert quotas == {C: {RATE: 5.0, "request_percentage": 0.5}}
    assert codes == {C: 0}
    quotas, _ = change(QuotaChange(C, [(RATE, 6.0), ("request_percentage", None)]), quotas=quotas)
    assert quotas == {C: {RATE: 6.0}}
    quotas, codes = change(QuotaChange(C, [(RATE, None), ("nonsense", None)]), quotas=quotas)
    assert quotas == {}
    assert codes == {C: 0}


def test_what_is_refused_changes_nothing_and_hinders_nobody() -> None:
    before = {C: {RATE: 5.0}}
    quotas, codes = change(
        QuotaChange(C, [("consumer_byte_rate", 7.0), (RATE, 0.0)]), QuotaChange(D, [(RATE, 8.0)]), quotas=before
    )
    assert quotas == {C: {RATE: 5.0}, D: {RATE: 8.0}}
    assert codes == {C: ErrorCode.INVALID_REQUEST, D: 0}
    assert before == {C: {RATE: 5.0}}


def test_of_an_entity_that_is_named_twice_the_first_change_is_made_and_the_answer_is_an_error() -> None:
    quotas, codes = change(QuotaChange(C, [(RATE, 5.0)]), QuotaChange(C, [(RATE, 6.0)]))
    assert quotas == {C: {RATE: 5.0}}
    assert codes == {C: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"nobody": "x"},
        {"user": ""},
        {"client-id": ""},
        {"ip": ""},
        {"ip": "10.0.0.1", "user": "u"},
        {"ip": None, "client-id": None},
        {"ip": "10.0.0.2"},
    ],
)
def test_entities_that_there_are_not(parts: dict[str, str | None]) -> None:
    entity = entity_of(parts.items())
    quotas, codes = change(QuotaChange(entity, []))
    assert (quotas, codes) == ({}, {entity: ErrorCode.INVALID_REQUEST})


@pytest.mark.parametrize("parts", [{"ip": "10.0.0.1"}, {"ip": "::1"}, {"ip": None}])
def test_addresses_have_one_key(parts: dict[str, str | None]) -> None:
    entity = entity_of(parts.items())
    assert change(QuotaChange(entity, [("connection_creation_rate", 5.0)]))[1] == {entity: 0}
    assert change(QuotaChange(entity, [("connection_creation_rate", 2.0**31)]))[1][entity]
    assert change(QuotaChange(entity, [(RATE, 5.0)]))[1][entity]
    assert change(QuotaChange(C, [("connection_creation_rate", 5.0)]))[1][C]


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (RATE, 1.0, True),
        (RATE, 0.0, False),
        (RATE, -1.0, False),
        (RATE, 1.5, False),
        (RATE, 1.0000001, True),
        (RATE, 2.0**63, True),
        (RATE, 2.0**64, False),
        (RATE, math.inf, False),
        (RATE, math.nan, False),
        ("request_percentage", math.nan, False),
        ("request_percentage", 0.001, True),
        ("request_percentage", math.inf, True),
        ("controller_mutation_rate", 0.5, True),
        ("nonsense", 1.0, False),
    ],
)
def test_values(key: str, value: float, allowed: bool) -> None:
    assert (change(QuotaChange(C, [(key, value)]))[1] == {C: 0}) is allowed


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_rate_of_connections_is_a_number(value: float) -> None:
    entity = (("ip", None),)
    assert change(QuotaChange(entity, [("connection_creation_rate", value)]))[1][entity] == ErrorCode.INVALID_REQUEST


def test_a_key_is_named_once() -> None:
    assert change(QuotaChange(C, [(RATE, 5.0), (RATE, None)])) == ({}, {C: ErrorCode.INVALID_REQUEST})


def test_what_is_stored_is_read_again() -> None:
    quotas = {
        entity_of([("user", None), ("client-id", "c")]): {RATE: 5.0, "request_percentage": math.inf},
        (("ip", None),): {"connection_creation_rate": 7.0},
    }
    assert quotas_from_state(json.loads(json.dumps(quotas_state(quotas)))) == quotas


def test_what_was_stored_and_can_be_no_quota_is_left_out() -> None:
    stored = [
        {"entity": {"client-id": "c"}, "values": {RATE: math.nan, "request_percentage": 5.0}},
        {"entity": {"client-id": "d"}, "values": {"request_percentage": math.nan}},
        {"entity": {"ip": None}, "values": {"connection_creation_rate": math.inf}},
    ]
    assert quotas_from_state(json.loads(json.dumps(stored))) == {C: {"request_percentage": 5.0}}


# ------------------------------------------------------------------------------------------------------------ filters

ALL = [
    entity_of(parts.items())
    for parts in (
        {"user": "u"}, {"user": None}, {"client-id": "c"}, {"client-id": None}, {"user": "u", "client-id": "c"},
        {"user": "u", "client-id": None}, {"user": None, "client-id": "c"}, {"ip": "10.0.0.1"}, {"ip": None},
    )
]  # fmt: skip


def asked(components: Iterable[tuple[str, int, str | None]], strict: bool = False) -> DescribeClientQuotasRequest:
    named = [ComponentData(entity_type=kind, match_type=number, match=name) for kind, number, name in components]
    return DescribeClientQuotasRequest(components=named, strict=strict)


def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[int]:
    wanted = filter_of(asked(components, strict))
    assert isinstance(wanted, Filter)
    return [number for number, entity in enumerate(ALL) if wanted.fits(entity)]


EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def test_filters() -> None:
    assert found() == list(range(9))
    assert found(strict=True) == []
    assert found(("user", EXACT, "u")) == [0, 4, 5]
    assert found(("user", EXACT, "u"), strict=True) == [0]
    assert found(("user", DEFAULT, None)) == [1, 6]
    assert found(("user", DEFAULT, None), strict=True) == [1]
    assert found(("user", SPECIFIED, None)) == [0, 1, 4, 5, 6]
    assert found(("user", SPECIFIED, None), strict=True) == [0, 1]
    assert found(("user", SPECIFIED, None), ("client-id", EXACT, "c")) == [4, 6]
    assert found(("user", EXACT, "u"), ("client-id", DEFAULT, None), strict=True) == [5]
    assert found(("ip", SPECIFIED, None)) == [7, 8]
    assert found(("ip", EXACT, "10.0.0.1")) == [7]
    assert found(("client-id", EXACT, "nobody")) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("nobody", EXACT, "u")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "u"), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, None), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", SPECIFIED, None), ("user", EXACT, "u")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_there_are_not(components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    refusal = filter_of(asked(components))
    assert isinstance(refusal, Refusal)
    assert refusal.error_code == code
