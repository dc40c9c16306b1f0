"""The demo itself: real clients, a served broker, and `ottla why` as it is typed."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from examples.incidents.incidents import INCIDENTS
from examples.incidents.model import Told
from tests.support.processes import python

EXPECTED = {
    "invoices": [("invoices-2", "left-poll-timeout")],
    "quotes": [("quotes-1", "join-barrier-missed")],
    "payments": [("payments-2", "session-expired-connection-lost")],
    "orders": [("orders-3", "rolling-restart")],
    "shipping": [("shipping-1", "static-member-replaced"), ("shipping-3", "rolling-restart")],
    "search": [("search-3", "turned-away-assignor-mismatch")],
    "emails": [("emails-2", "flapping-member")],
    "ledger": [("ledger-1", "leader-never-synced")],
    "audit": [("audit-2", "subscription-changed")],
    "clicks": [("clicks-5", "turned-away-group-full")],
    "returns": [("returns-1", "revocation-timeout")],
    "refunds": [("refunds-1", "fenced-epoch")],
    "events": [("events-1", "regex-resolved")],
    "parcels": [("parcels-1", "static-member-not-back")],
    "renewals": [("renewals-1", "classic-rejoin-missed")],
}
"""Culprits and causes that must be reported for each group, at least."""


def play(directory: Path, *arguments: str) -> str:
    """Run the demo to its end, which must be a good one; gives what it printed."""
    return python("examples.incidents", "--directory", str(directory), *arguments, timeout_s=240)


ottla = partial(python, "ottla.cli")
"""A command that must go well."""


def table(text: str) -> dict[str, list[tuple[str, str]]]:
    """The table at the end: group → (culprit, cause) of each line with a ✓."""
    found: dict[str, list[tuple[str, str]]] = {}
    group = ""
    groups = "|".join(EXPECTED)
    for line in text.partition("INCIDENT ")[2].splitlines():
        if match := re.search(rf"  ({groups}) +(\1-\d|nobody) ", line):
            group = match[1]
        if match := re.search(r" (\S+-\d) +(\S+) +✓$", line):
            found.setdefault(group, []).append((match[1], match[2]))
    return found


@pytest.mark.e2e
@pytest.mark.slow
def test_two_of_the_incidents(tmp_path: Path) -> None:
    text = play(tmp_path / "run", "--only", "search,payments")
    told = table(text)
    assert told == {group: EXPECTED[group] for group in ("payments", "search")}, text
    assert "$ ottla why payments" in text and "Passed: every culprit and every cause is named, 2 of 2." in text

    recording = tmp_path / "run" / "groups.recording"
    for group in ("payments", "search"):
        body = ottla("why", group, "--file", str(recording), "--last", "9", "--format", "json")
        episodes = [Told.of(episode) for episode in json.loads(body)["episodes"]]
        assert EXPECTED[group][0] in [(one.culprit, one.cause) for one in episodes], body
    assert "payments" in ottla("timeline", "payments", "--file", str(recording))
    ottla("replay", str(recording))


@pytest.mark.e2e
@pytest.mark.slow
def test_all_of_them(tmp_path: Path) -> None:
    assert set(EXPECTED) == {incident.group for incident in INCIDENTS}
    text = play(tmp_path / "run")
    told = table(text)
    for group, expected in EXPECTED.items():
        assert set(expected) <= set(told[group]), text
    (seconds,) = re.findall(r"^The whole run took ([\d.]+) s\.$", text, re.MULTILINE)
    assert float(seconds) < 180
