"""The incidents: what is done to each group, and who is to blame for what comes of it.

Each is a coroutine that plays on the `Stage` and gives the truth about what it did. All have groups of their own, so
they can be played at the same time.
"""

from __future__ import annotations

import asyncio
import time

from examples.incidents.model import Incident, Told, Truth
from examples.incidents.stage import Stage


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
    running = await stage.recorded(
        group, since_ms, "to wait for ledger-1", lambda one: "outcome" not in one and Told.of(one).culprit == "ledger-1"
    )
    meanwhile = (Told.of(running),)
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
)
