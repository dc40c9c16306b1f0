"""The facts that advice about an episode is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Advice, Episode, MemberPart, Trigger
from ottla.observe.why.plain import application

BROKERS_OWN = (
    "group.consumer.assignors",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.size",
)
"""Settings of the broker that advice is about; all others are those of a client."""


class Case:
    """The facts that advice is made from.

    Attributes:
        trigger: what it is about; part, who: the member that did it.
        facts: the broker's settings.
    """

    def __init__(self, episode: Episode, trigger: Trigger, names: list[str], facts: Mapping[str, str]) -> None:
        self.episode = episode
        self.trigger = trigger
        has_member = 0 <= trigger.member < len(episode.members)
        self.part = episode.members[trigger.member] if has_member else MemberPart("", "", "")
        self.who = names[trigger.member] if has_member else "the member"
        self.facts = facts

    def value(self, setting: str) -> str:
        """The present value of a setting, a client's as its member sent it; empty if it is not known."""
        match setting:
            case "max.poll.interval.ms" | "rebalance.timeout.ms":
                return str(self.part.rebalance_timeout_ms or "")
            case "session.timeout.ms" | "group.consumer.session.timeout.ms" if self.part.session_timeout_ms:
                return str(self.part.session_timeout_ms or "")
            case "group.instance.id":
                return self.part.group_instance_id or ""
        return self.facts.get(setting, "")

    def advice(self, setting: str, text: str, *, value: str | None = None, **more: str) -> Advice:
        """Advice about a setting.

        Args:
            text: with the member as {who}, the value as {now}, its session timeout as {session}, and ``more``.
            value: what the setting is, if `value` does not tell.
        """
        value = self.value(setting) if value is None else value
        session = _now(self.value("session.timeout.ms"))
        said = text.format(who=self.who, now=_now(value), session=session, **more).replace(f" ({_now('')})", "")
        return Advice(said, setting, of_client=setting not in BROKERS_OWN, value=value)

    @property
    def is_back(self) -> bool:
        """Whether the member, which is dynamic, is back under another member id: its application was restarted."""
        if self.part.group_instance_id is not None:
            return False
        here = ((one.client_id, one.client_host) for one in self.episode.members if one.fate in ("new", "returned"))
        return self.trigger.cause == Cause.MEMBER_RETURNED or (self.part.client_id, self.part.client_host) in here

    @property
    def application(self) -> str:
        """The application that the member is, whatever its member ids were."""
        return application(self.episode, self.trigger.member) if self.trigger.member >= 0 else self.who


def _now(value: str) -> str:
    return f"{value} now" if value else "not known"


Make = Callable[[Case], Advice | None]


def say(setting: str, text: str) -> Callable[[Case], Advice]:
    """The same advice in every case; see `Case.advice`."""
    return lambda case: case.advice(setting, text)


def crashed(setting: str, text: str) -> Callable[[Case], Advice]:
    """The advice about a crash, or the one about a restart if the member is back already."""
    back = (
        "If {who} was restarted: give each member a group.instance.id of its own (not set now), so that it takes its "
        "old place when it is back within its session timeout ({session}), without a rebalance; or let it call close() "
        "when it is stopped, so that nobody waits for it. If it was not, find out why it ended."
    )
    return lambda case: case.advice("group.instance.id", back) if case.is_back else case.advice(setting, text)
