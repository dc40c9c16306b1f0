"""An alert, as JSON."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import msgspec

State = Literal["raised", "resolved"]


class Alert(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One line of JSON. Fields that say nothing are left out.

    Attributes:
        v: version of this shape; readers ignore fields that they do not know.
        id: names the trouble: the same for ``raised`` and ``resolved``, and the same when a batch is done again after
            a crash. Delivery is at least once; who drops a second (id, state) has it exactly once.
        kind: ``storm`` or ``stopped``.
        ts_ms: when it came to that, by the clock of the log.
        since_ms: when it began, by the same clock; in ``resolved`` it is that of ``raised``.
        text: a sentence for people.
        topic: of a stopped group.
        pattern: of a storm: ``rolling_restart`` where nearly every rebalance was another client's, else ``storm``.
        generation: the latest; ``generations``: how many so far.
        suspect: the client that caused most of them; ``suspect_host``: where it runs.
        cause: what most of them were about; only where ``__ottla_group_events`` tells.
        paused_ms: how long the group stood still for them; as ``cause``.
        members: how many there were at most.
        silent_ms: how long nothing has been committed; ``usual_ms``: the usual interval.
        unread: records that lie unread.
        partitions: how many partitions of the topic the group reads.
    """

    v: int
    id: str
    state: State
    kind: str
    group: str
    ts_ms: int
    since_ms: int
    text: str
    topic: str | None = None
    pattern: str | None = None
    generation: int | None = None
    generations: int | None = None
    suspect: str | None = None
    suspect_host: str | None = None
    cause: str | None = None
    paused_ms: int | None = None
    members: int | None = None
    silent_ms: int | None = None
    usual_ms: int | None = None
    unread: int | None = None
    partitions: int | None = None

    def json(self) -> str:
        """The alert as one line, without the line feed."""
        return msgspec.json.encode(self).decode()


VERSION = 1


def alert_id(kind: str, group: str, topic: str, since_ms: int) -> str:
    """The same for the same trouble, whoever computes it and whenever."""
    return sha256("\0".join((kind, group, topic, str(since_ms))).encode()).hexdigest()[:16]


def seconds(ms: int) -> str:
    """``42 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(ms / 1000)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
