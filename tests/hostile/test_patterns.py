"""Texts of clients that drive a search: patterns of ListTransactions, and the reasons that clients give."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.core.events.reasons import Reason
from ottla.observe.group_events import plain
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.hostile.victim import Victim
from tests.support.client import Client

IDS = 15
LETTERS = 32_000
SLOW = "[0-9]+-[ab]*a[ab]{500}"
"""Needs more states than RE2 may keep, so each character is held against hundreds of places: 60 ms for one id."""


def listed(victim: Victim, pattern: str) -> Any:
    with Client(victim.port) as client:
        client.socket.settimeout(60)
        filters = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
        return client.call(ApiKey.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern, **filters)


@pytest.mark.e2e
def test_a_pattern_holds_nobody_up() -> None:
    chance = random.Random(1)
    with Victim() as victim:
        with Client(victim.port) as client:
            client.producer("short")
            for number in range(IDS):
                name = f"{number}-" + "".join(chance.choices("ab", k=LETTERS))
                assert client.producer(name).error_code == 0
        used_s = victim.cpu_s()
        refused = listed(victim, "((((){1000}){1000}){1000})")
        with victim.calm() as felt, ThreadPoolExecutor(4) as clients:
            began = time.monotonic()
            found = list(clients.map(lambda pattern: listed(victim, pattern), [".*c", "s.*t", SLOW, SLOW]))
            took_s = time.monotonic() - began
        used_s = victim.cpu_s() - used_s
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    counts = [len(answer.transaction_states) for answer in found]
    assert counts[:2] == [0, 1] and counts[2] == counts[3] < IDS
    assert used_s < took_s * 1.6 + 3, "patterns of several clients keep more than one thread busy"
    assert felt.longest_ms < 400, "a listing holds up the loop"


@pytest.mark.parametrize("reason", ["[" * 32_000, "a" * 32_000, "(]{" * 10_000, "1" * 32_000, "a1 " * 10_000 + "["])
def test_the_reason_of_a_client_is_told_in_time(reason: str) -> None:
    began_s = time.process_time()
    plain(reason)
    assert time.process_time() - began_s < 0.5


@pytest.mark.parametrize("word", ["Removing a", "Freshly-loaded group ", "when storing group assignment ", "Leader "])
def test_the_coordinators_words_are_read_in_time(word: str) -> None:
    text = f"Leader {word * (32_000 // len(word))} re-joining"
    began_s = time.process_time()
    for said in (text, text.removeprefix("Leader "), f"Updating metadata for static member {text}"):
        Reason.read(said)
    assert time.process_time() - began_s < 0.15


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("a1 b [c, (d] e", "… b … e"),
        ("] a [", "] a ["),
        ("a [b] (c) d", "a … d"),
        ("  poll  of t-1[2 3]x took 5ms ", "poll of … took …"),
    ],
)
def test_a_reason_without_what_differs(said: str, told: str) -> None:
    assert plain(said) == told
