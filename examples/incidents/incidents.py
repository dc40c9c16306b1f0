"""The incidents: what is done to each group, and who is to blame for what comes of it.

Each is a coroutine that plays on the `Stage` and gives the truth about what it did. All have groups of their own, so
they can be played at the same time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from examples.incidents.model import Incident, Told, Truth
from examples.incidents.stage import Stage, is_without
from ottla.observe.why.model import HERE


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def form(stage: Stage, client: str, group: str, names: tuple[str, ...], **options: str | float) -> int:
    """A group of these members, Stable. Gives the time (Unix ms) after which things are done to it."""
    for name in names:
        await stage.join(client, name, group, **options)
    await stage.stable(group, *names)
    return now_ms()


async def turned_away(stage: Stage, group: str, name: str, **options: str | float) -> None:
    """A member comes, and its client tells that the group does not take it."""
    newcomer = await stage.join("confluent-kafka", name, group, **options)
    await stage.until(f"{name} to be turned away", lambda: bool(newcomer.troubles))
    stage.view.note(group, f"{name} is told: {newcomer.troubles[-1]}")


async def asked_while_waiting(
    stage: Stage, group: str, since_ms: int, name: str, *, trigger: str | None = None, says: str = ""
) -> tuple[Told, ...]:
    """What is told while a group waits for a member. Nothing, if that was over before it could be asked.

    Args:
        trigger: who began what is asked about, None for anybody; says: it waits for these words in the headline.
    """
    asked: list[Told] = []

    def found(one: dict[str, Any]) -> bool:
        if "outcome" in one:
            return is_without(one, name)
        told = Told.of(one)
        if trigger not in (None, told.trigger):
            return False
        asked[:] = [told]
        return told.culprit == name and says in told.headline

    await stage.recorded(group, since_ms, f"to wait for {name}", found)
    return tuple(asked)


async def slow_poll_loop(stage: Stage) -> list[Truth]:
    group, names = "invoices", ("invoices-1", "invoices-2", "invoices-3")
    since_ms = await form(stage, "confluent-kafka", group, names, max_poll_interval_ms=6_000)
    stage.view.note(group, "invoices-2 takes 10 s for one piece of work; max.poll.interval.ms is 6000")
    stage.tell("invoices-2", "work 10")
    await stage.gone(group, since_ms, "invoices-2")
    stage.view.note(group, "invoices-2 is out of the group, though its process and its heartbeats are well")
    await stage.stable(group, *names)
    stage.view.note(group, "invoices-2 polls again and is back")
    return [Truth("invoices-2", ("left-poll-timeout",), since_ms, words=("max.poll.interval.ms",))]


async def missed_barrier(stage: Stage) -> list[Truth]:
    group, names = "quotes", ("quotes-1", "quotes-2")
    since_ms = await form(stage, "aiokafka", group, names, rebalance_timeout_ms=6_000)
    stage.view.note(group, "quotes-3 joins, and quotes-1 takes 10 s to flush what it has; its rebalance timeout is 6 s")
    stage.tell("quotes-1", "flush 10")
    await stage.join("aiokafka", "quotes-3", group, rebalance_timeout_ms=6_000)
    await stage.gone(group, since_ms, "quotes-1")
    stage.view.note(group, "nobody consumed for 6 s; then the group went on without quotes-1")
    await stage.stable(group, *names, "quotes-3")
    stage.view.note(group, "quotes-1 is back")
    return [Truth("quotes-1", ("join-barrier-missed",), since_ms, trigger="quotes-3")]


async def crash(stage: Stage) -> list[Truth]:
    group, names = "payments", ("payments-1", "payments-2", "payments-3")
    since_ms = await form(stage, "kafka-python", group, names)
    stage.view.note(group, "payments-2 is killed (SIGKILL); nobody tells the broker")
    await stage.kill("payments-2")
    await stage.stable(group, "payments-1", "payments-3")
    stage.view.note(group, "its session of 6 s has run out, the others have its partitions")
    return [Truth("payments-2", ("session-expired-connection-lost",), since_ms)]


async def rolling_restart(stage: Stage) -> list[Truth]:
    group, names = "orders", ("orders-1", "orders-2", "orders-3")
    await form(stage, "ottla", group, names)
    truths = []
    for name in names:
        stage.view.note(group, f"{name} is restarted: it leaves")
        truths.append(Truth(name, ("left-closed", "rolling-restart"), now_ms()))
        await stage.leave(name)
        await stage.stable(group, *(one for one in names if one != name))
        stage.view.note(group, f"{name} is restarted: it comes back")
        truths.append(Truth(name, ("member-returned", "rolling-restart"), now_ms()))
        await stage.join("ottla", name, group)
        await stage.stable(group, *names)
    stage.view.note(group, "three restarts, six rebalances")
    return truths


async def static_restart(stage: Stage) -> list[Truth]:
    group, names = "shipping", ("shipping-1", "shipping-2", "shipping-3")
    for name in names:
        await stage.join("confluent-kafka", name, group, instance_id=name, session_timeout_ms=30_000)
    await stage.stable(group, *names)
    truths = []
    for name in names:
        stage.view.note(group, f"{name}, which has a group.instance.id, is restarted")
        truths.append(Truth(name, ("static-member-replaced", "rolling-restart"), now_ms(), kind="replacement"))
        await stage.leave(name)
        await stage.join("confluent-kafka", name, group, instance_id=name, session_timeout_ms=30_000)
        await stage.stable(group, *names)
    stage.view.note(group, "three restarts, no rebalance")
    return truths


async def mixed_assignors(stage: Stage) -> list[Truth]:
    group, names = "search", ("search-1", "search-2")
    since_ms = await form(stage, "confluent-kafka", group, names, assignor="range")
    stage.view.note(group, "search-3 is deployed with cooperative-sticky; the others know only range")
    await turned_away(stage, group, "search-3", assignor="cooperative-sticky")
    return [Truth("search-3", ("turned-away-assignor-mismatch",), since_ms, kind="refusal")]


async def flapping(stage: Stage) -> list[Truth]:
    group, names = "emails", ("emails-1", "emails-2", "emails-3")
    since_ms = await form(stage, "aiokafka", group, names)
    for number in range(1, 5):
        await asyncio.sleep(1.5)
        since_ms = now_ms()
        stage.view.note(group, f"emails-2 stumbles and is started again by its supervisor, time {number}")
        await stage.leave("emails-2")
        await stage.join("aiokafka", "emails-2", group)
        await stage.stable(group, *names)
    return [Truth("emails-2", ("flapping-member",), since_ms)]


async def blocked_leader(stage: Stage) -> list[Truth]:
    group, names = "ledger", ("ledger-1", "ledger-2", "ledger-3")
    patient: dict[str, str | float] = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 12_000}
    since_ms = now_ms()
    await stage.join("aiokafka", "ledger-1", group, stuck_s=16, **patient)
    await stage.until("ledger-1 to lead", lambda: stage.clients(group) == ["ledger-1"])
    for name in names[1:]:
        await stage.join("aiokafka", name, group, **patient)
    stage.view.note(group, "the assignor of the leader, ledger-1, asks a database that does not answer")
    meanwhile = await asked_while_waiting(stage, group, since_ms, "ledger-1")
    barrier_ms = now_ms()
    await stage.stable(group, *names)
    stage.view.note(group, "the sync barrier dropped ledger-1; another leads, and in the end all are in")
    waits = ("waits for ledger-1",)
    return [
        # On a busy machine the others come when the first generation is formed already.
        Truth("ledger-1", ("group-started", "member-joined"), since_ms, words=waits, meanwhile=meanwhile, trigger=None),
        Truth("ledger-1", ("leader-never-synced",), barrier_ms),
    ]


async def subscription_change(stage: Stage) -> list[Truth]:
    group, names = "audit", ("audit-1", "audit-2")
    since_ms = await form(stage, "aiokafka", group, names)
    stage.view.note(group, "audit-2 subscribes to a second topic, audit-archive")
    actor = stage.actors["audit-2"]
    actor.joined = False
    stage.tell("audit-2", "subscribe audit,audit-archive")
    await stage.stable(group, *names)
    return [Truth("audit-2", ("subscription-changed",), since_ms, words=("audit-archive",))]


async def oversized(stage: Stage) -> list[Truth]:
    group, names = "clicks", ("clicks-1", "clicks-2", "clicks-3", "clicks-4")
    since_ms = await form(stage, "confluent-kafka", group, names)
    stage.view.note(group, "clicks-5 is deployed; group.max.size is 4")
    await turned_away(stage, group, "clicks-5")
    return [Truth("clicks-5", ("turned-away-group-full",), since_ms, kind="refusal", words=("group.max.size",))]


# Members of the consumer protocol (KIP-848)

HEARTBEATS = "heartbeats"


async def settled(stage: Stage, group: str, since_ms: int, members: int) -> None:
    """Wait until a consumer group has brought so many members to their targets, since a Unix time."""

    def found(episode: dict[str, Any]) -> bool:
        here = [one for one in episode["members"] if one.get("fate", "stayed") in HERE]
        return episode.get("outcome") == "stable" and len(here) == members

    await stage.recorded(group, since_ms, f"to settle with {members} members", found)


async def reconciled(stage: Stage, group: str, *names: str, **options: str | float) -> int:
    """A consumer group of these members, each with its share. Gives the time after which things are done to it."""
    since_ms = now_ms()
    for number, name in enumerate(names, 1):
        await stage.join(HEARTBEATS, name, group, **options)
        await settled(stage, group, since_ms, number)
    return now_ms()


async def late_revocation(stage: Stage) -> list[Truth]:
    group = "returns"
    since_ms = await reconciled(stage, group, "returns-1", max_poll_interval_ms=8_000)
    stage.view.note(group, "returns-2 joins, and returns-1 takes 30 s to let go of what it shall give up")
    stage.tell("returns-1", "flush 30")
    await stage.join(HEARTBEATS, "returns-2", group, max_poll_interval_ms=8_000)
    meanwhile = await asked_while_waiting(stage, group, since_ms, "returns-1", trigger="returns-2", says="report")
    joined_ms = since_ms
    since_ms = await stage.gone(group, since_ms, "returns-1")
    stage.view.note(group, "its time is over: it is fenced, and returns-2 has all partitions")
    waits = ("its heartbeats still report", "returns-2 waits for that", "is removed in")
    return [
        Truth("returns-1", ("member-joined",), joined_ms, words=waits, meanwhile=meanwhile, trigger="returns-2"),
        Truth("returns-1", ("revocation-timeout",), since_ms),
    ]


async def old_epoch(stage: Stage) -> list[Truth]:
    group = "refunds"
    since_ms = await reconciled(stage, group, "refunds-1", "refunds-2", "refunds-3")
    stage.view.note(group, "refunds-1 is restored from a snapshot of its machine, and sends the epoch of then")
    stage.tell("refunds-1", "restore")
    await stage.until("refunds-1 to be fenced", lambda: bool(stage.actors["refunds-1"].troubles))
    stage.view.note(group, f"it is told: {stage.actors['refunds-1'].troubles[-1]}; it gives up all, and joins again")
    return [Truth("refunds-1", ("fenced-epoch",), since_ms, kind="refusal", words=("it sent epoch",))]


async def regex_without_topics(stage: Stage) -> list[Truth]:
    group, since_ms = "events", now_ms()
    stage.view.note(group, "events-1 subscribes to evnets-.*, which is misspelt")
    await stage.join(HEARTBEATS, "events-1", group, topics="^evnets-.*")
    await stage.recorded(group, since_ms, "to look for topics", lambda one: one["kind"] == "resolution")
    words = "evnets-.*", "matches no topic"
    return [Truth("events-1", ("regex-resolved",), since_ms, kind="resolution", words=words)]


async def static_not_back(stage: Stage) -> list[Truth]:
    group = "parcels"
    await stage.join(HEARTBEATS, "parcels-1", group, instance_id="parcels-1")
    since_ms = await reconciled(stage, group, "parcels-2")
    await settled(stage, group, since_ms - 60_000, 2)
    since_ms = now_ms()
    stage.view.note(group, "parcels-1, which has a group.instance.id, is stopped for longer than its session")
    await stage.leave("parcels-1")
    since_ms = await stage.gone(group, since_ms, "parcels-1")
    stage.view.note(group, "its partitions stood still all the while; now parcels-2 has them")
    return [Truth("parcels-1", ("static-member-not-back",), since_ms)]


async def stuck_migration(stage: Stage) -> list[Truth]:
    group = "renewals"
    since_ms = await form(stage, "aiokafka", group, ("renewals-1",), rebalance_timeout_ms=8_000)
    stage.view.note(group, "renewals-2 is deployed with group.protocol=consumer: the group changes its protocol")
    stage.view.note(group, "renewals-1 shall join again, and writes its results away first, for 20 s")
    stage.tell("renewals-1", "flush 20")
    await stage.join(HEARTBEATS, "renewals-2", group)
    meanwhile = await asked_while_waiting(stage, group, since_ms, "renewals-1", trigger="renewals-2")
    gone_ms = await stage.gone(group, since_ms, "renewals-1")
    stage.view.note(group, "its time is over: it is removed, and renewals-2 has all partitions")
    waits = ("renewals-2 waits for that",)
    return [
        Truth(None, ("group-upgraded",), since_ms, kind="conversion", trigger="renewals-2"),
        Truth("renewals-1", ("member-joined",), since_ms, words=waits, meanwhile=meanwhile, trigger="renewals-2"),
        Truth("renewals-1", ("classic-rejoin-missed",), gone_ms),
    ]


INCIDENTS = (
    Incident(
        "Slow poll loop",
        "invoices",
        "A member takes longer for one piece of work than max.poll.interval.ms.\n"
        "It heartbeats all the time, and is out of the group nevertheless.",
        slow_poll_loop,
    ),
    Incident(
        "Slow flush at a rebalance",
        "quotes",
        "A third member joins. The others must let go of their partitions and come to the join\n"
        "barrier; one of them writes its results away first, and takes too long.",
        missed_barrier,
    ),
    Incident(
        "Crash",
        "payments",
        "A member is killed with SIGKILL. Its partitions stand still until its session has run out.",
        crash,
    ),
    Incident(
        "Rolling restart",
        "orders",
        "Three members are restarted one after another, as a deployment does it.",
        rolling_restart,
    ),
    Incident(
        "Rolling restart of static members",
        "shipping",
        "The same, but each member has a group.instance.id.",
        static_restart,
    ),
    Incident(
        "Mixed assignors",
        "search",
        "A member is deployed with an assignor that the others do not know.",
        mixed_assignors,
    ),
    Incident("Flapping member", "emails", "A member stumbles over and over, and is started again each time.", flapping),
    Incident(
        "Blocked leader",
        "ledger",
        "The leader's assignor hangs, so that nobody gets an assignment.",
        blocked_leader,
    ),
    Incident(
        "Subscription change",
        "audit",
        "A member subscribes to one more topic.",
        subscription_change,
        topics=("audit", "audit-archive"),
    ),
    Incident(
        "Oversized group",
        "clicks",
        "A fifth member is started where group.max.size is 4.",
        oversized,
    ),
    Incident(
        "Late revocation",
        "returns",
        "In a group of the consumer protocol a member takes too long to give up what another one\nshall have.",
        late_revocation,
    ),
    Incident(
        "Old epoch",
        "refunds",
        "A member of the consumer protocol sends an epoch that is over.",
        old_epoch,
    ),
    Incident(
        "Misspelt regex", "events", "A member subscribes with a regex that no topic matches.", regex_without_topics
    ),
    Incident(
        "Static member that is not back",
        "parcels",
        "A static member of the consumer protocol is away for longer than its session.",
        static_not_back,
    ),
    Incident(
        "Migration that is stuck",
        "renewals",
        "The first member of the consumer protocol comes to a classic group, which changes its protocol;\n"
        "a classic member does not join again in time.",
        stuck_migration,
    ),
)
