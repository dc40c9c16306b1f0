"""Holding Ottla against Apache Kafka counts only as long as it finds every planted difference, and soon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.testing import BrokerProcess
from tests.differential.beside import PROFILES, QUIET, prepare
from tests.differential.kinds import KINDS, kind_of
from tests.differential.planted import PLANTED, Mistaken
from tests.differential.real_kafka import RealKafka, skip_without_kafka
from tests.differential.seeds import first_to_differ, run_seed

SEEDS = 300
SETTINGS = PROFILES["prompt"]


@pytest.fixture(scope="module")
def kafka() -> Iterator[int]:
    skip_without_kafka()
    with RealKafka(QUIET | SETTINGS) as broker:
        prepare(broker.port)
        yield broker.port


@pytest.fixture(scope="module")
def ottla() -> Iterator[int]:
    with BrokerProcess(settings=SETTINGS) as broker:
        prepare(broker.port)
        yield broker.port


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PLANTED)), ids=[planted.name for planted in PLANTED])
def test_a_planted_difference_is_found(number: int, kafka: int, ottla: int) -> None:
    with Mistaken(number, SETTINGS) as mistaken:
        prepare(mistaken.port)
        found, played = asyncio.run(first_to_differ((kafka, mistaken.port), range(SEEDS)))
    assert found, f"{PLANTED[number].name}: survived {SEEDS} seeds"
    print(f"{PLANTED[number].name}: seed {found.seed}, {played} were played, {found.signature}")
    right = asyncio.run(run_seed((kafka, ottla), found.seed))
    assert not right.text, "without the mistake it differs, too"


def test_the_kinds_of_traces_take_turns() -> None:
    assert {kind_of(seed) for seed in range(len(KINDS))} == set(KINDS)
