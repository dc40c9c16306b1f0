"""Compares what the lake says of each group with what was done to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from examples.pipeline.ledger import Compared
from examples.pipeline.play import PLANTED, Planted
from examples.pipeline.steps import OBJECTIVE_S, Steps


class Verdict(NamedTuple):
    """The findings about one group.

    Attributes:
        found: in words; wrong: what is not as it should be.
    """

    planted: Planted
    found: list[str]
    wrong: list[str]


def judge(steps: Steps) -> list[Verdict]:
    """Hold the gold tables against what was planted."""
    tables = [steps.rows(name) for name in ("findings", "slo_breaches", "partition_status", "rebalances")]
    return [_judge(one, *([row for row in rows if row["group_id"] == one.group] for rows in tables)) for one in PLANTED]


def _judge(
    one: Planted,
    findings: list[dict[str, Any]],
    breaches: list[dict[str, Any]],
    statuses: list[dict[str, Any]],
    rebalances: list[dict[str, Any]],
) -> Verdict:
    found = [
        f"{row['kind']}: {row['evidence']}" + (f" (suspect: {row['suspect']})" * bool(row["suspect"]))
        for row in findings
    ]
    wrong = []
    if one.finding and one.finding not in {row["kind"] for row in findings}:
        wrong.append(f"it is not found that there was a {one.finding}")
    if one.suspect and one.suspect not in {row["suspect"] for row in findings if row["kind"] == one.finding}:
        wrong.append(f"{one.suspect} is not named")
    if not one.finding and findings:
        wrong.append(f"{', '.join(row['kind'] for row in findings)} was not planted")
    if breaches:
        worst_s = max(row["worst_lag_seconds"] for row in breaches)
        found.append(f"behind by up to {worst_s:.0f} s; the objective is {OBJECTIVE_S} s")
    if one.breaches and not breaches:
        wrong.append("it is not found that it fell behind")
    if one.status == "OK" and breaches:
        wrong.append("it did not fall behind")
    told = sorted({row["status"] for row in statuses})
    found.append(f"its partitions are {', '.join(told)}")
    if one.status and one.status not in told:
        wrong.append(f"none of its partitions is {one.status}")
    if unknown := sum(row["duration_ms"] is None for row in rebalances if row["generation"]):
        wrong.append(f"the duration of {unknown} rebalances is not known")
    return Verdict(one, found, wrong)


def show(verdicts: list[Verdict], commits: Compared) -> bool:
    """Print what was planted and what was found; whether all of it is right."""
    print()
    for one in verdicts:
        print(f"  {'right' if not one.wrong else 'WRONG'}  {one.planted.group}: {one.planted.what}")
        for text in one.found:
            print(f"           {text}")
        for text in one.wrong:
            print(f"         ! {text}")
    right = "right" if not commits.wrong else "WRONG"
    told = f"{commits.acknowledged:,} acknowledged when the trouble was over, {commits.found:,} in it"
    print(f"  {right}  commits: {told}")
    for text in commits.wrong:
        print(f"         ! {text}")
    print()
    return not commits.wrong and not any(one.wrong for one in verdicts)
