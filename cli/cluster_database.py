"""`ottla cluster drain`, `resume`, `remove` and `history`: what operators want of nodes that share a database.

They go to the database itself, as `serve --cluster` does, so that they work whichever nodes are up, and for nodes that
hang.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

import click

from ottla.cli.cluster_moves import LOOK_S, partition_of, timeout_option
from ottla.cli.cluster_options import Place, of_database
from ottla.cli.common import Answer, formatted, missing
from ottla.cli.output import Refused, count_of, print_fields, say, when
from ottla.clients.partitions import label
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.cluster.plan import LogRow
    from ottla.broker.storage.postgres.asyncpg_database import AsyncpgDatabase
    from ottla.broker.storage.postgres.catalog import PostgresCatalog
    from ottla.broker.storage.postgres.connections import Link

T = TypeVar("T")

UP, DRAINING, DOWN = "up", "draining", "down"
SILENT_MS = 3_750
"""A node that has not beaten for so long is taken for dead by the others."""
MOST_TRIES = 20
PATIENCE_S = 30.0
"""For what the database has to answer at once."""


class NodeSeen(NamedTuple):
    """A node as the database has it.

    Attributes:
        why: it is not up, or why it drains; empty otherwise.
        is_drained: an operator wants it to lead nothing.
        beat_ms: how long ago its last beat was; None if it has not beaten yet.
    """

    node_id: int
    incarnation: int
    state: str
    why: str
    is_drained: bool
    address: str | None
    up_ms: int
    beat_ms: int | None

    @property
    def is_keen(self) -> bool:
        """Whether it takes over what others hand over."""
        return self.state == UP


class Survey(NamedTuple):
    """What the database knows of a cluster.

    Attributes:
        logs: with their partitions; of one that the catalog does not name yet there is none.
        leaderless_ms: for logs of which nobody is the leader, since when.
        database: of the server, as `ottla.broker.storage.postgres.survey.SURVEY` has it.
    """

    nodes: Mapping[int, NodeSeen]
    logs: Sequence[LogRow]
    leaderless_ms: Mapping[int, int | None]
    database: Mapping[str, Any]

    def node(self, node_id: int) -> NodeSeen:
        """A node. Raises `Refused` if there is none with the id."""
        if node_id not in self.nodes:
            known = ", ".join(map(str, self.nodes)) or "none yet"
            raise Refused(f"There is no node {node_id} in this cluster.", f"Known nodes: {known}.")
        return self.nodes[node_id]

    def led_by(self, node: NodeSeen) -> list[LogRow]:
        """The logs that a life of a node leads."""
        life = node.node_id, node.incarnation
        return [row for row in self.logs if (row.leader_id, row.leader_incarnation) == life]


class Reached:
    """The database of a cluster, connected."""

    def __init__(self, database: AsyncpgDatabase, link: Link, catalog: PostgresCatalog) -> None:
        self.database = database
        self.link = link
        self.catalog = catalog

    async def survey(self) -> Survey:
        """Look at nodes, logs and the server."""
        import json

        from ottla.broker.cluster.plan import LogRow
        from ottla.broker.storage.postgres.survey import SURVEY

        found = json.loads((await self.database.fetch(SURVEY, self.database.hint))[0][0])
        return Survey(
            {row["node_id"]: _seen(row) for row in found["nodes"]},
            [LogRow(*row) for row in found["logs"]],
            {int(log_id): age_ms for log_id, age_ms in found["leaderless"].items()},
            found["database"],
        )

    async def partitions(self) -> dict[int, TopicPartition]:
        """The partition of each log."""
        await self.catalog.refresh()
        state = self.catalog.load() or {"topics": {}}
        return {
            log_id: TopicPartition(name, index)
            for name, row in state["topics"].items()
            for index, log_id in enumerate(self.catalog.logs_of(UUID(row["topic_id"])))
        }


def _seen(row: Mapping[str, Any]) -> NodeSeen:
    from ottla.broker.cluster.membership import DRAIN
    from ottla.broker.endpoints import BETWEEN_NODES

    state, why = _state(row)
    told = (place for name, place in row["endpoints"].items() if name != BETWEEN_NODES)
    host, port = next(told, (None, None))
    return NodeSeen(
        row["node_id"],
        row["incarnation"],
        state,
        why,
        row["intent"] == DRAIN,
        None if host is None else f"{host}:{port}",
        row["up_ms"],
        row["beat_ms"],
    )


def _state(row: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a node as the others see it, and why it is that."""
    from ottla.broker.cluster.membership import DRAIN
    from ottla.broker.cluster.view import NodeState

    if row["state"] == NodeState.DOWN:
        return DOWN, "it has ended"
    if not row["is_held"]:
        return DOWN, "its connection has closed"
    if row["beat_ms"] is None or row["beat_ms"] > SILENT_MS:
        return DOWN, "it does not beat"
    if row["state"] == NodeState.DRAINING:
        return DRAINING, "it is about to end"
    return (DRAINING, "an operator drains it") if row["intent"] == DRAIN else (UP, "")


def reach(place: Place, work: Callable[[Reached], Awaitable[T]], *, patience_s: float = PATIENCE_S) -> T:
    """Connect to the database of a cluster, and give what is done with it, which must not take longer.

    Raises:
        Refused: it cannot be reached, or there is no cluster.
        click.UsageError: no database is named, or asyncpg is missing.
    """
    from ottla.broker.engine import EngineError
    from ottla.broker.settings import BadSetting
    from ottla.cli.database_node import database_of

    settings = place.loaded().settings

    async def main() -> T:
        async with _reached(database_of(settings)) as reached:
            async with asyncio.timeout(patience_s):
                return await work(reached)

    try:
        return asyncio.run(main())
    except BadSetting as error:
        raise click.UsageError(f"{error}.") from None
    except (EngineError, TimeoutError) as error:
        said = str(error) or "the database has not answered in time"
        raise Refused(f"{said if '://' in said else said[:1].upper() + said[1:]}.") from None


@asynccontextmanager
async def _reached(database: AsyncpgDatabase) -> AsyncIterator[Reached]:
    from ottla.broker.clock import LoopClock
    from ottla.broker.core.topics.homes import FOLLOWERS
    from ottla.broker.storage.postgres.catalog import PostgresCatalog
    from ottla.broker.storage.postgres.connections import Link

    await database.open(creates=False)
    link = Link("M", database.connect, LoopClock(asyncio.get_running_loop()), lambda server, link: None)
    link.connect()
    try:
        yield Reached(database, link, PostgresCatalog(link, lambda: "an operator", FOLLOWERS))
    finally:
        link.close()
        database.close()


async def _want(reached: Reached, node_id: int, intent: int) -> None:
    from ottla.broker.storage.postgres.database import Describe

    await reached.link.answer(Describe(node_id, intent=intent))


@click.command("drain", short_help="Let a node lead nothing, while it stays up.")
@click.argument("node_id", metavar="ID", type=int)
@timeout_option
@formatted
@of_database
def drain(node_id: int, timeout: float, place: Place) -> Answer:
    """Move everything off node ID, which stays up, and leads nothing until `ottla cluster resume`.

    That holds also when it is started again. Groups do not rebalance for it, and nothing is lost.
    """
    return reach(place, lambda reached: _drain(reached, node_id, timeout), patience_s=timeout + PATIENCE_S)


async def _drain(reached: Reached, node_id: int, timeout_s: float) -> Answer:
    from ottla.broker.cluster.membership import DRAIN

    survey = await reached.survey()
    node = survey.node(node_id)
    if not any(other.is_keen for other in survey.nodes.values() if other.node_id != node_id):
        raise Refused(
            f"Nobody could take over from node {node_id}: no other node is up that does not drain.",
            "Start another node, or end a drain with `ottla cluster resume ID`, and say this again.",
        )
    await _want(reached, node_id, DRAIN)
    if node.state == DOWN:
        said = f"Node {node_id} is down. When it comes back it leads nothing, until `ottla cluster resume {node_id}`."
        return Answer(_drained(node_id, 0, 0), lambda: say(said))
    led = left = len(survey.led_by(node))
    until = asyncio.get_running_loop().time() + timeout_s
    while left and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(LOOK_S)
        left = len((await reached.survey()).led_by(node))
    failure = None
    if left:
        failure = Refused(
            f"Node {node_id} still leads {count_of(left, 'partition')} after {timeout_s:g} s.",
            "It goes on handing over. `ottla cluster status` shows whether it is up, and who else is.",
        )

    def show() -> None:
        if not left:
            moved = f"{count_of(led, 'partition')} went to other nodes" if led else "it led nothing"
            say(f"Node {node_id} leads nothing any more: {moved}. It is up until you stop it;", nl=False)
            say(f" `ottla cluster resume {node_id}` lets it lead again.")

    return Answer(_drained(node_id, led - left, left), show, failure)


def _drained(node_id: int, moved: int, left: int) -> dict[str, Any]:
    return {"node_id": node_id, "state": DRAINING, "moved": moved, "left": left}


@click.command("resume", short_help="End a drain: let a node lead again.")
@click.argument("node_id", metavar="ID", type=int)
@formatted
@of_database
def resume(node_id: int, place: Place) -> Answer:
    """Let node ID lead again what is at home with it."""
    return reach(place, lambda reached: _resume(reached, node_id))


async def _resume(reached: Reached, node_id: int) -> Answer:
    survey = await reached.survey()
    node = survey.node(node_id)
    if not node.is_drained:
        said = f"Node {node_id} does not drain: nothing was changed."
    else:
        await _want(reached, node_id, 0)
        at_home = sum(row.home == node_id for row in survey.logs)
        when_up = "" if node.state != DOWN else " once it is started"
        said = f"Node {node_id} leads again{when_up}: {count_of(at_home, 'partition')} at home with it go back."
        if not at_home:
            said = f"Node {node_id} may lead again. Nothing is at home with it: `ottla cluster balance` changes that."
    return Answer({"node_id": node_id, "was_drained": node.is_drained}, lambda: say(said))


@click.command("remove", short_help="Forget a node that does not come back.")
@click.argument("node_id", metavar="ID", type=int)
@formatted
@of_database
def remove(node_id: int, place: Place) -> Answer:
    """Forget node ID, which has to be down, and let what is at home with it be at home with the others.

    A node that is started with that id later is a new one.
    """
    return reach(place, lambda reached: _remove(reached, node_id))


async def _remove(reached: Reached, node_id: int) -> Answer:
    from ottla.broker.storage.postgres.survey import REMOVE

    survey = await reached.survey()
    node = survey.node(node_id)
    if node.state != DOWN:
        raise Refused(
            f"Node {node_id} is up: its last beat was {(node.beat_ms or 0) / 1000:.1f} s ago.",
            f"Let it go first: `ottla cluster drain {node_id}`, then stop it.",
        )
    others = [one for one in survey.nodes.values() if one.node_id != node_id]
    if not others:
        raise Refused(f"Node {node_id} is the only one: what it leads has nowhere to go.", "Start another node first.")
    heirs = [one.node_id for one in others if one.is_keen] or [one.node_id for one in others]
    moved = await _deal_anew(reached, node_id, heirs)
    gone = (await reached.database.fetch(REMOVE, node_id, node.incarnation))[0][0]
    if not gone:
        raise Refused(f"Node {node_id} has just been started again: it was not removed.", "Stop it first.")
    row = {"node_id": node_id, "moved": moved}
    said = f"Node {node_id} is forgotten: {count_of(moved, 'partition')} that had a home there got another one."
    return Answer(row, lambda: say(said))


async def _deal_anew(reached: Reached, gone: int, heirs: Collection[int]) -> int:
    """Let everything that is at home at a node be at home with others; the number of logs."""
    from ottla.broker.cluster.plan import deal_anew, with_followers
    from ottla.broker.engine import Outdated

    for _ in range(MOST_TRIES):
        await reached.catalog.refresh()
        logs = (await reached.survey()).logs
        homes = with_followers(deal_anew(logs, gone, heirs), logs)
        if not homes:
            return 0
        try:
            await reached.catalog.rehome(homes)
        except Outdated:  # somebody has changed the catalog meanwhile
            continue
        return len(homes)
    raise Refused("Others change the catalog all the time: nothing was removed.", "Say the same again.")


@click.command("history", short_help="Show who led a partition, from when, and why.")
@click.argument("partition", metavar="TOPIC-PARTITION")
@formatted
@of_database
def history(partition: str, place: Place) -> Answer:
    """Show who has led a partition, from when on, and why that changed. The last line is who leads it now."""
    tp = partition_of(partition)
    return reach(place, lambda reached: _history(reached, tp))


async def _history(reached: Reached, tp: TopicPartition) -> Answer:
    from ottla.broker.storage.postgres.survey import HISTORY

    logs = {found: log_id for log_id, found in (await reached.partitions()).items()}
    if tp not in logs:
        count = Counter(one.topic for one in logs)
        if tp.topic not in count:
            raise missing("topic", tp.topic, count)
        raise Refused(f"Topic {tp.topic!r} has no partition {tp.partition}: it has {count[tp.topic]}.")
    rows = [
        {"at_ms": at_ms, "epoch": epoch, "node_id": None if node_id < 0 else node_id, "incarnation": life, "why": why}
        for at_ms, epoch, node_id, life, why in await reached.database.fetch(HISTORY, logs[tp])
    ]

    def show() -> None:
        print_fields(("from", "node", "epoch", "why"), rows, lambda row: when(row["at_ms"]), "node_id", "epoch", "why")
        if not rows:
            say(f"Nobody has led {label(tp)} yet.")

    return Answer({"partition": label(tp), "leaders": rows}, show)
