"""Every scenario comes out as recorded, and every rule of the coordinator has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.scenario import Play
from tests.core.scenario_text import Scenario, read_scenarios, written

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.scenario"))
RULES = FOLDER / "RULES.txt"


def named(path: Path) -> list[tuple[Path, int, str]]:
    return [(path, index, item.title) for index, item in enumerate(read_scenarios(path))]


CASES = [case for path in FILES for case in named(path)]


@pytest.mark.parametrize(("path", "index", "title"), CASES, ids=[f"{path.stem}: {title}" for path, _, title in CASES])
def test_scenario(path: Path, index: int, title: str, request: pytest.FixtureRequest) -> None:
    scenario = read_scenarios(path)[index]
    outcome = Play().run(scenario)
    if request.config.getoption("--record-scenarios", default=False):
        scenarios = read_scenarios(path)
        scenarios[index] = Scenario(title, outcome)
        path.write_text(written(scenarios), encoding="utf-8")
    else:
        assert outcome == scenario.lines


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
    for path in FILES:
        assert written(read_scenarios(path)) == path.read_text(encoding="utf-8"), path.name


def test_a_wrong_outcome_is_noticed() -> None:
    scenario = Scenario("tampered", ["heartbeat c1", "    c1 < Heartbeat NONE"])
    assert Play().run(scenario) == ["heartbeat c1", "    c1 < Heartbeat UNKNOWN_MEMBER_ID"]
