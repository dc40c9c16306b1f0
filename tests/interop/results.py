"""What a run found, as it is kept in docs/compatibility/ and printed on the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from tests.interop.suite import Result, Suite

KEPT = Path(__file__).parents[2] / "docs" / "compatibility"


@dataclass(slots=True)
class Record:
    """One suite's last whole run.

    Attributes:
        passed, failed, skipped: how many tests; ``failed`` counts those with a known reason too.
        unsteady: tests that passed only when they were run again.
        not_passed: the tests that did not pass: test, outcome and reason.
    """

    name: str
    title: str
    language: str
    versions: str
    date: str
    foreign: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    unsteady: list[str] = field(default_factory=list)
    not_passed: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        suite: Suite,
        versions: str,
        results: Sequence[Result],
        date: str,
        seconds: float,
        unsteady: Sequence[str] = (),
    ) -> Self:
        record = cls(suite.name, suite.title, suite.language, versions, date, suite.foreign, seconds=round(seconds, 1))
        record.unsteady = sorted(unsteady)
        counts = Counter(result.outcome for result in results)
        record.passed, record.failed, record.skipped = counts["passed"], counts["failed"], counts["skipped"]
        for result in results:
            if result.outcome != "passed":
                reason = known_reason(suite.known, result.test) or _short(result.reason)
                record.not_passed.append({"test": result.test, "outcome": result.outcome, "reason": reason})
        record.not_passed.sort(key=lambda row: (row["outcome"], row["reason"], row["test"]))
        return record

    def save(self) -> None:
        KEPT.mkdir(exist_ok=True)
        path = KEPT / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load() -> list[Record]:
    """Every record that is kept, in the order of the page."""
    records = []
    for path in KEPT.glob("*.json"):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        records.append(Record(**found))
    return sorted(records, key=lambda record: (record.foreign, record.language.lower(), record.title.lower()))


def known_reason(known: Mapping[str, str], test: str) -> str:
    """Why this test need not pass; "" if it must."""
    for pattern, reason in known.items():
        if test == pattern or fnmatchcase(test, pattern):
            return reason
    return ""


def unexpected(suite: Suite, results: Sequence[Result]) -> list[Result]:
    """The failures that nobody explained."""
    return [one for one in results if one.outcome == "failed" and not known_reason(suite.known, one.test)]


def _short(reason: str) -> str:
    words = " ".join(reason.split())
    return words if len(words) <= 200 else f"{words[:199]}…"
