"""Documents and dashboard name what there is, and all of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.settings import FIELDS
from ottla.observe.metrics.catalogue import SPECS
from ottla.observe.sentinels.model import SENTINELS

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "examples/grafana/ottla.json").read_text())
PARTS = ("_bucket", "_count", "_sum")


def queries(panel: dict[str, Any]) -> list[str]:
    """The expressions of a panel."""
    return [target["expr"] for target in panel.get("targets", ())]


def named(expression: str) -> set[str]:
    """The metrics of an expression."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\b(?:ottla|process)_[a-z_]+", bare))


def test_the_document_lists_every_metric_as_it_is_declared() -> None:
    told = (ROOT / "docs/metrics.md").read_text()
    for spec in SPECS:
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        assert f"| `{spec.name}` | {spec.kind} | {labels} | {spec.help} |" in told
    known = {spec.name for spec in SPECS} | {key.replace(".", "_") for key in FIELDS}
    assert set(re.findall(r"\bottla_[a-z_]+", told)) <= known


@pytest.mark.parametrize("document", ["metrics", "sentinels"])
def test_documents_name_settings_that_there_are(document: str) -> None:
    told = (ROOT / f"docs/{document}.md").read_text()
    prefix = f"ottla.{document.removesuffix('s')}"
    prefixes = (prefix, f"ottla.{document}")
    assert set(re.findall(r"`(ottla\.[a-z.]+)[`=]", told)) <= FIELDS.keys()
    assert [key for key in FIELDS if key.startswith(prefixes) and key not in told] == []


def test_the_document_lists_every_sentinel() -> None:
    told = (ROOT / "docs/sentinels.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE) == list(SENTINELS)
    assert re.findall(r"^- \*\*(\w+)\*\*:", told, re.MULTILINE) == list(SENTINELS)


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    known = {spec.name for spec in SPECS}
    known |= {f"{spec.name}{part}" for spec in SPECS if spec.kind == "histogram" for part in PARTS}
    asked = {name for panel in DASHBOARD["panels"] for query in queries(panel) for name in named(query)}
    asked |= {name for variable in DASHBOARD["templating"]["list"] for name in named(str(variable.get("query", "")))}
    assert {name for name in asked if name.startswith("ottla_")} <= known
    of_process = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    assert {name for name in asked if not name.startswith("ottla_")} <= of_process
    # What nobody else has must be seen.
    assert asked >= {
        "ottla_rebalances_total",
        "ottla_group_barrier_age_seconds",
        "ottla_group_partition_unavailable_seconds_total",
        "ottla_group_heartbeat_slack_ratio",
        "ottla_group_lag_seconds",
        "ottla_sentinels_active",
        "ottla_journal_sync_duration_seconds_bucket",
    }


def test_the_dashboard_uses_labels_that_its_metrics_have() -> None:
    labels = {spec.name: {*spec.labels, "le"} for spec in SPECS}
    for panel in DASHBOARD["panels"]:
        for query in queries(panel):
            (name, *others) = sorted(named(query))
            base = next(
                key for key in (name, *(name.removesuffix(part) for part in PARTS)) if key in labels or key == name
            )
            if others or base not in labels:
                continue
            used = [*re.findall(r"\bby \(([^)]*)\)", query), *re.findall(r'(\w+)!?=~?"', query)]
            assert {one.strip() for part in used for one in part.split(",")} <= labels[base], query


def test_counters_are_asked_for_as_rates() -> None:
    for panel in DASHBOARD["panels"]:
        for query in queries(panel):
            for name in named(query):
                if name.endswith(("_total", *PARTS)):
                    assert re.search(rf"(rate|increase)\({name}", query), query


def test_panels_can_be_told_apart_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
