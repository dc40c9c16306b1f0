"""Holding Ottla against Apache Kafka counts only as long as it finds every planted difference, and soon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.differential.beside import PROFILES, QUIET, Beside, prepare
from tests.differential.kinds import KINDS, kind_of, profile_of
from tests.differential.planted import PLANTED, Mistaken, profile_to_find
from tests.differential.real_kafka import RealKafka, skip_without_kafka
from tests.differential.seeds import first_to_differ, run_seed

SEEDS = 300
CASES = [(profile_to_find(planted), number) for number, planted in enumerate(PLANTED)]


@pytest.fixture(scope="module")
def beside(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The ports of both brokers with the settings of a profile."""
    skip_without_kafka()
    settings = PROFILES[request.param]
    with RealKafka(QUIET | settings) as kafka, Beside(settings) as ottla:
        for port in (kafka.port, ottla.port):
            prepare(port, settings)
        yield kafka.port, ottla.port


@pytest.mark.slow
@pytest.mark.parametrize(("beside", "number"), CASES, ids=[one.name for one in PLANTED], indirect=["beside"])
def test_a_planted_difference_is_found(number: int, beside: tuple[int, int]) -> None:
    kafka, ottla = beside
    profile, _ = CASES[number]
    seeds = [seed for seed in range(SEEDS) if profile_of(seed) == profile]
    with Mistaken(number, PROFILES[profile]) as mistaken:
        prepare(mistaken.port, PROFILES[profile])
        found, played = asyncio.run(first_to_differ((kafka, mistaken.port), seeds))
    assert found, f"{PLANTED[number].name}: survived {played} seeds"
    print(f"{PLANTED[number].name}: seed {found.seed}, {played} were played, {found.signature}")
    right = asyncio.run(run_seed((kafka, ottla), found.seed))
    assert not right.text, "without the mistake it differs, too"


def test_the_kinds_of_traces_take_turns() -> None:
    assert {kind_of(seed) for seed in range(len(KINDS))} == set(KINDS)
