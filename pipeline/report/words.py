"""What the kinds of findings and statuses are called, and how much they matter."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: 3 is wrong now or was, 2 costs something, 1 is good to know.
        label: on a chip.
        phrase: what the group did, after its name.
    """

    severity: int
    label: str
    phrase: str


KINDS = {
    "stopped": Kind(3, "stopped", "stopped committing"),
    "stalled": Kind(3, "stalled", "commits but does not advance"),
    "storm": Kind(3, "rebalance storm", "was in a rebalance storm"),
    "zombie": Kind(3, "zombie", "has a member that heartbeats but reads nothing"),
    "rewound": Kind(3, "rewound", "went back to earlier offsets"),
    "oversized_barrier": Kind(2, "long wait to rejoin", "waited long for a member to rejoin"),
    "slow": Kind(2, "falling behind", "reads slower than is written"),
    "flapping_static_member": Kind(2, "flapping static member", "has a static member that comes and goes"),
    "hot_partition": Kind(2, "hot partition", "writes most of a partition of __consumer_offsets"),
    "rolling_restart": Kind(1, "rolling restart", "was restarted member by member"),
}
STATUS = {
    "STOP": (3, "no commits any more, and records are waiting"),
    "STALL": (3, "commits the same offset again and again"),
    "REWIND": (3, "went back to an earlier offset"),
    "WARN": (2, "commits, and its lag does not shrink"),
}
TONES = ("neutral", "neutral", "warn", "bad")


def kind(name: str) -> Kind:
    """A kind by its name; one that is not known here is called what it is."""
    said = name.replace("_", " ")
    return KINDS.get(name, Kind(2, said, f"has a finding: {said}"))


def severity(name: str) -> int:
    """1 to 3, see `Kind`."""
    return kind(name).severity


def tone(level: int) -> str:
    """The class of a chip."""
    return TONES[min(level, 3)]


def status_level(name: str) -> int:
    """How much a status matters, as for kinds."""
    return STATUS.get(name, (2, ""))[0]
