"""Every scenario comes out as recorded, and every rule of the group coordinator has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.scenario import Play
from tests.core.scenario_text import Scenario, Variant, read_scenarios, written
from tests.core.steps import Steps
from tests.core.transactions.txn_scenario import TransactionPlay

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.scenario"))
TRANSACTION_FILES = sorted(FOLDER.glob("transactions/*.scenario"))
RULES = FOLDER / "RULES.txt"


def named(path: Path) -> list[tuple[Path, int, str]]:
    return [(path, index, item.title) for index, item in enumerate(read_scenarios(path))]


CASES = [case for path in FILES for case in named(path)]
"""File, number in it and title of each scenario of the group coordinator."""

VARIANTS = [
    pytest.param(path, index, variant, id=" ".join((f"{path.stem}: {title}", *variant.values())))
    for path, index, title in [*CASES, *(case for path in TRANSACTION_FILES for case in named(path))]
    for variant in read_scenarios(path)[index].variants()
]


def play(path: Path) -> Steps:
    return Play() if path in FILES else TransactionPlay()


@pytest.mark.parametrize(("path", "index", "variant"), VARIANTS)
def test_scenario(path: Path, index: int, variant: Variant, request: pytest.FixtureRequest) -> None:
    scenario = read_scenarios(path)[index]
    if request.config.getoption("--record-scenarios", default=False):
        scenarios = read_scenarios(path)
        outcome = scenario.recorded(lambda of, variant: play(path).run(of, variant))
        scenarios[index] = Scenario(scenario.title, outcome)
        path.write_text(written(scenarios), encoding="utf-8")
    else:
        assert play(path).run(scenario, variant) == scenario.of(variant)


def rules() -> list[str]:
    """The ids of the rules, as the index lists them."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if re.match(r"\d+\.\d+-\d+ ", line)]


def test_every_rule_has_a_scenario() -> None:
    shown = {rule for path in FILES for scenario in read_scenarios(path) for rule in scenario.rules()}
    missing = [rule for rule in rules() if rule not in shown]
    unknown = sorted(shown - set(rules()))
    assert (missing, unknown) == ([], [])


def test_the_index_names_every_rule_once() -> None:
    assert len(rules()) > 100
    assert len(set(rules())) == len(rules())


def test_scenarios_are_formatted_as_they_are_recorded() -> None:
    for path in [*FILES, *TRANSACTION_FILES]:
        assert written(read_scenarios(path)) == path.read_text(encoding="utf-8"), path.name


def test_a_wrong_outcome_is_noticed() -> None:
    scenario = Scenario("tampered", ["heartbeat c1", "    c1 < Heartbeat NONE"])
    assert Play().run(scenario) == ["heartbeat c1", "    c1 < Heartbeat UNKNOWN_MEMBER_ID"]
