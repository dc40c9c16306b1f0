"""Reasons of rebalances, and the words in which Kafka logs them."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from enum import Enum

NOT_PROVIDED = "not provided"
"""Stands for the reason of a client that gave none (KIP-800)."""


class Began(Enum):
    """Beginnings of a rebalance in Kafka's words; the names in braces are those of `Reason`."""

    STATIC_ADDED = "Adding new member {member} with group instance id {instance}; client reason: {said}"
    ADDED = "Adding new member {member}; client reason: {said}"
    JOINING = "Member {member} is joining; client reason: {said}"
    LEADER_REJOINED = "Leader {member} re-joining group during {state}; client reason: {said}"
    UPDATED = "Updating metadata for member {member} during {state}; client reason: {said}"
    STATIC_REPLACED = "Updating metadata for static member {member} with instance id {instance}; client reason: {said}"
    PROTOCOL_CHANGED = (
        "Group's selectedProtocol will change because static member {member} with instance id {instance} joined with "
        "change of protocol; client reason: {said}"
    )
    LEFT = "explicit `LeaveGroup` request for ({member}) members."
    EXPIRED = "removing member {member} on heartbeat expiration"
    UNSYNCED = "Removing {member} on pending sync request expiration"
    ASSIGNMENT_FAILED = "Error {error} when storing group assignment during SyncGroup (member: {member})"
    GENERATION_FAILED = "Error {error} when storing generation {generation}"
    OVER_CAPACITY = "Freshly-loaded group {group} is over capacity ({members} > {most})"
    UNASSIGNED = "Generation {generation} was formed but not assigned"
    DOWNGRADED = "Downgrade group {group} from consumer to classic for member leaving."
    DOWNGRADED_LATE = "Downgrade group {group} from consumer to classic with stale assignment."
    NOT_UPGRADED = "Upgrade of group {group} could not be written"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a rebalance began; ``str`` gives the words.

    Attributes:
        member: the id of the member that began it; several are joined by a comma and a space.
        said: the client's own reason.
        members, most: how many members a group has, and may have.
    """

    began: Began
    member: str = ""
    said: str = NOT_PROVIDED
    instance: str = ""
    state: str = ""
    error: str = ""
    generation: int | str = ""
    group: str = ""
    members: int | str = ""
    most: int | str = ""

    def __str__(self) -> str:
        return self.began.value.format(**asdict(self))

    @classmethod
    def read(cls, words: str) -> Reason | None:
        """The reason that has these words; None if none of this version has."""
        for began in Began:
            if (facts := _read(words, began)) is not None:
                return cls(began, **facts)
        return None


def _read(words: str, began: Began) -> dict[str, str] | None:
    """The facts in words that a kind of reason has. Each ends where what follows it first appears: no word is read
    twice, however long a client's own are."""
    (start, *pieces) = _FIELD.split(began.value)
    if not words.startswith(start):
        return None
    rest, facts = words.removeprefix(start), {}
    names, texts = pieces[::2], pieces[1::2]
    for name, text in zip(names[:-1], texts[:-1], strict=True):
        facts[name], found, rest = rest.partition(text)
        if not found:
            return None
    if not rest.endswith(texts[-1]):
        return None
    return facts | {names[-1]: rest.removesuffix(texts[-1])}


_FIELD = re.compile(r"{(\w+)}")
