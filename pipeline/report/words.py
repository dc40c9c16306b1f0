"""Names of the kinds of findings and statuses, and how much each matters."""

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
    "stalled": Kind(3, "stalled", "commits but does not get on"),
    "unread_deleted": Kind(3, "records lost", "lost records that were deleted unread"),
    "storm": Kind(3, "rebalance storm", "was in a rebalance storm"),
    "zombie": Kind(3, "zombie", "waits for a member whose client is gone"),
    "two_believers": Kind(3, "two believers", "has two members that believe they own one partition"),
    "topic_without_owner": Kind(3, "no owner", "has partitions that nobody owns"),
    "rewound": Kind(3, "rewound", "went back to earlier offsets"),
    "refused_member": Kind(3, "members refused", "turned members away again and again"),
    "oversized_barrier": Kind(2, "long wait to rejoin", "waited long for members to rejoin"),
    "slow": Kind(2, "falling behind", "reads slower than is written"),
    "hot_partition": Kind(2, "hot partition", "cannot keep up with a partition that gets far more than others"),
    "flapping_static_member": Kind(2, "flapping static member", "has a static member that comes and goes"),
    "flapping_member": Kind(2, "flapping member", "has a member that comes and goes"),
    "fenced_commit": Kind(2, "fenced commits", "has commits refused of members that are out"),
    "mixed_subscriptions": Kind(2, "mixed subscriptions", "has members with different subscriptions"),
    "rolling_restart": Kind(1, "rolling restart", "was restarted member by member"),
}
"""Those of gold, and those of the broker's sentinels (docs/sentinels.md) that gold takes over under their names."""
STATUS = {
    "STOP": (3, "no commits any more, and records are waiting"),
    "STALL": (3, "commits the same offset again and again"),
    "REWIND": (3, "went back to an earlier offset"),
    "WARN": (2, "commits, and its lag does not shrink"),
}
OVER = "over its objective"
"""On the chip of a group that was behind by more than it may be."""
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
    """The severity of a status, as of kinds."""
    return STATUS.get(name, (2, ""))[0]
