"""Print docs/compatibility.md from the runs that are kept in docs/compatibility/."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tests.interop.results import KEPT, Record, load

PAGE = KEPT.parent / "compatibility.md"

HEAD = """\
# Compatibility

<!-- Printed by tests/interop/report.py from docs/compatibility/*.json, which `make interop` writes; do not edit. -->

Unmodified clients and tools, and other people's test-suites, that were run against Ottla. `make interop` runs them all,
`make interop-NAME` one; what is missing on a machine is skipped with a reason. A suite passes when every test passes
that has no reason listed here.

"""

CLIENTS = """\
## Clients and tools

Each client joins, leaves, crashes and comes back in groups, commits, writes and reads every codec, and is idempotent
and transactional where it can be. All but Connect, Kafka's tools, confluent's JavaScript client and the five in one
group also log in over TLS by SCRAM-SHA-512, PLAIN and OAUTHBEARER, and with a certificate; they are refused with
something wrong, and read on while their sessions end and are renewed (KIP-368).

"""

FOREIGN = """\
## Test-suites of other projects

Their test files are fetched from the package registries and run as they are; a suite that has to change one says so in
its title.

"""


def render() -> str:
    records = load()
    parts = [HEAD]
    for heading, foreign in ((CLIENTS, False), (FOREIGN, True)):
        chosen = [record for record in records if record.foreign is foreign]
        if chosen:
            parts += [heading, _table(chosen)]
    for record in records:
        if record.not_passed or record.unsteady:
            parts.append(_details(record))
    return "".join(parts)


def write_page() -> Path:
    PAGE.write_text(render(), encoding="utf-8")
    return PAGE


def _table(records: list[Record]) -> str:
    rows = ["| Suite | Language | Versions | Passed | Failed | Skipped | Run on |", "|---|---|---|--:|--:|--:|---|"]
    for one in records:
        link = f"[{one.title}](../tests/interop/{one.name})"
        counts = f"{one.passed} | {one.failed} | {one.skipped}"
        rows.append(f"| {link} | {one.language} | {_cell(one.versions)} | {counts} | {one.date} |")
    return "\n".join(rows) + "\n\n"


def _details(record: Record) -> str:
    """Why tests did not pass; those with the same reason together."""
    lines = [f"### {record.title}: what did not pass\n"]
    rows = sorted(record.not_passed, key=lambda row: (row["outcome"], row["reason"]))
    for (outcome, reason), group in groupby(rows, key=lambda row: (row["outcome"], row["reason"])):
        tests = sorted(row["test"] for row in group)
        shown = ", ".join(f"`{test}`" for test in tests[:12]) + (
            f" and {len(tests) - 12} more" if len(tests) > 12 else ""
        )
        lines.append(f"* {outcome} ({len(tests)}): {_cell(reason) or 'no reason given'}\n  {shown}")
    if record.unsteady:
        lines.append(f"* passed only when run again: {', '.join(f'`{test}`' for test in record.unsteady)}")
    return "\n".join(lines) + "\n\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(write_page())
