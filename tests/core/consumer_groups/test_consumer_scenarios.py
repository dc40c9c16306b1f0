"""Every scenario of consumer groups comes out as recorded, and every rule of theirs has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.consumer_groups.modern_scenario import ConsumerPlay
from tests.core.scenario_text import Scenario, Variant, read_scenarios, written

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.scenario"))
RULES = FOLDER / "RULES.txt"

CASES = [
    pytest.param(path, index, variant, id=" ".join((f"{path.stem}: {item.title}", *variant.values())))
    for path in FILES
    for index, item in enumerate(read_scenarios(path))
    for variant in item.variants()
]


@pytest.mark.parametrize(("path", "index", "variant"), CASES)
def test_scenario(path: Path, index: int, variant: Variant, request: pytest.FixtureRequest) -> None:
    scenarios = read_scenarios(path)
    if request.config.getoption("--record-scenarios", default=False):
        outcome = scenarios[index].recorded(lambda of, variant: ConsumerPlay().run(of, variant))
        scenarios[index] = Scenario(scenarios[index].title, outcome)
        path.write_text(written(scenarios), encoding="utf-8")
    else:
        assert ConsumerPlay().run(scenarios[index], variant) == scenarios[index].of(variant)


def rules() -> list[str]:
    """The rules that the index lists."""
    return re.findall(r"^(R\d+\.\d+) ", RULES.read_text(encoding="utf-8"), re.MULTILINE)


def shown() -> list[str]:
    """The rules that scenarios name."""
    lines = [line for path in FILES for item in read_scenarios(path) for line in item.lines if line.startswith("#")]
    return re.findall(r"\bR\d+\.\d+", "\n".join(lines))


def test_every_rule_has_a_scenario() -> None:
    missing = [rule for rule in rules() if rule not in shown()]
    unknown = sorted({*shown()} - {*rules()})
    assert (missing, unknown) == ([], [])


def test_the_index_names_every_rule_once() -> None:
    assert len(rules()) > 100
    assert len(set(rules())) == len(rules())


def test_scenarios_are_formatted_as_they_are_recorded() -> None:
    for path in FILES:
        assert written(read_scenarios(path)) == path.read_text(encoding="utf-8"), path.name
