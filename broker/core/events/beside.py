"""Events beside the coordinator, on which no decision of it depends: alarms of the sentinels, and changes of topics.

The sentence about an alarm is not part of the event, as it names clients that a recording may have to hide. Groups
learn of topics from their clients.
"""

from __future__ import annotations

from ottla.broker.core.events.base import Event


class SentinelRaised(Event, kw_only=True):
    """Something is wrong with a group; ``cause`` is the input that showed it, 0 if it was seen by looking.

    ``sentinel`` is one of `ottla.observe.sentinels.SENTINELS`; ``subject`` the topic that it is about, or empty.
    """

    sentinel: str
    subject: str


class SentinelCleared(Event, kw_only=True):
    """It is over."""

    sentinel: str
    subject: str
    lasted_ms: int


class TopicChanged(Event, kw_only=True):
    """A topic was created, and ``partitions_before`` is 0, or it has more partitions now.

    `TopicDeleted` is the end of one.
    """

    topic: str
    partitions: int
    partitions_before: int


class FaultFired(Event, kw_only=True):
    """A fault that somebody had set took hold of a request, or of its answer.

    Attributes:
        fault: the fault's name.
        api: of the request.
        member_id, client_id: who sent it; the member id is empty where the request names none.
        done: what the fault did, such as ``dropped the answer``.
    """

    fault: str
    api: str
    member_id: str
    client_id: str
    done: str

    def line(self) -> str | None:
        return f"A fault {self.done}: {self.api} of client {self.client_id} ({self.fault})"
