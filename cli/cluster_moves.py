"""`ottla cluster move` and `balance`: partitions of a running cluster go to other nodes, as Kafka's tools move them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import Answer, bootstrap_option, duration_option, formatted, missing, with_admin
from ottla.cli.output import Refused, Row, count_of, print_fields, say
from ottla.clients.partitions import label
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.clients import TopicInfo
    from ottla.clients.cluster_admin import ClusterAdmin
    from ottla.clients.structs import PartitionInfo

LOOK_S = 0.1

timeout_option = duration_option(
    "--timeout", shortest="100ms", default="1m", help="How long to wait until it is done. It goes on all the same."
)


def partition_of(text: str) -> TopicPartition:
    """A partition as Kafka writes it: ``orders-0``.

    Raises:
        click.UsageError: it is none.
    """
    topic, _, number = text.rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()):
        raise click.UsageError(f"{text!r} is no partition: write TOPIC-PARTITION, such as orders-0.")
    return TopicPartition(topic, int(number))


@click.command("move", short_help="Let another node lead a partition.")
@click.argument("partition", metavar="TOPIC-PARTITION")
@click.option("--to", "node_id", metavar="ID", type=int, required=True, help="The node at which it is at home then.")
@timeout_option
@formatted
@bootstrap_option
def move(partition: str, node_id: int, timeout: float, bootstrap: str) -> Answer:
    """Let a node lead a partition from now on, and whenever it is up.

    Groups do not rebalance for it, and nothing is lost. Nodes have to share a database: with `ottla serve --nodes`
    partitions are moved by `ottla cluster spread`.
    """
    from ottla.clients.cluster_admin import ClusterAdmin

    tp = partition_of(partition)
    return with_admin(bootstrap, lambda admin: _move(admin, tp, node_id, timeout), ClusterAdmin)


async def _move(admin: ClusterAdmin, tp: TopicPartition, node_id: int, timeout_s: float) -> Answer:
    topics = await admin.describe_topics()
    if tp.topic not in topics:
        raise missing("topic", tp.topic, topics)
    place = topics[tp.topic].partitions.get(tp.partition)
    if place is None:
        raise Refused(f"Topic {tp.topic!r} has no partition {tp.partition}: it has {len(topics[tp.topic].partitions)}.")
    keen = await _keen(admin)
    if node_id not in keen:
        raise Refused(
            f"Node {node_id} does not take partitions: it is not there, is down, or drains.",
            f"{'Nodes that do: ' + ', '.join(map(str, keen)) if keen else 'None does'}. "
            "`ottla cluster status` shows all; `ottla cluster resume ID` ends a drain.",
        )
    await admin.reassign({tp: _replicas(topics, place, node_id)})
    left = await _arrived(admin, {tp: node_id}, timeout_s)
    row = {"partition": label(tp), "from": place.leader_id, "to": node_id, "is_led_there": not left}

    def show() -> None:
        if left:
            return
        already = place.leader_id == node_id
        say(f"Node {node_id} leads {label(tp)}" + (" already, and is its home." if already else ", and is its home."))

    return Answer(row, show, _still(left, timeout_s))


@click.command("balance", short_help="Deal partitions evenly over the nodes that are up.")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and move nothing.")
@timeout_option
@formatted
@bootstrap_option
def balance(dry_run: bool, timeout: float, bootstrap: str) -> Answer:
    """Let each node that is up be the home of as many partitions as the others, with as few moves as that takes.

    Coordinators of groups and transactions are dealt apart from topics of clients. Nodes that drain get nothing.
    Groups do not rebalance for it, and nothing is lost.
    """
    from ottla.clients.cluster_admin import ClusterAdmin

    return with_admin(bootstrap, lambda admin: _balance(admin, timeout, dry_run=dry_run), ClusterAdmin)


async def _balance(admin: ClusterAdmin, timeout_s: float, *, dry_run: bool) -> Answer:
    topics, keen = await admin.describe_topics(), await _keen(admin)
    if not keen:
        raise Refused("No node takes partitions: all drain.", "`ottla cluster resume ID` ends a drain.")
    homes = homes_in_balance(topics, keen)
    places = {tp: topics[tp.topic].partitions[tp.partition] for tp in homes}
    left: list[TopicPartition] = []
    if homes and not dry_run:
        await admin.reassign({tp: _replicas(topics, places[tp], home) for tp, home in homes.items()})
        left = await _arrived(admin, homes, timeout_s)
    rows: list[Row] = [
        {"partition": label(tp), "from": places[tp].replicas[0], "to": home} for tp, home in sorted(homes.items())
    ]
    return Answer(
        {"moves": rows, "is_dry_run": dry_run, "left": list(map(label, left))},
        lambda: _show(rows, dry_run=dry_run),
        _still(left, timeout_s),
    )


def homes_in_balance(topics: Mapping[str, TopicInfo], nodes: list[int]) -> dict[TopicPartition, int]:
    """New homes, so that each node has as many as the others. What follows another topic goes along by itself."""
    from ottla.broker.cluster.plan import LogRow
    from ottla.broker.cluster.plan import balance as balanced
    from ottla.broker.core.topics.homes import FOLLOWERS

    own = {name: topic for name, topic in topics.items() if name not in FOLLOWERS}
    tps = sorted(TopicPartition(name, index) for name, topic in own.items() for index in topic.partitions)
    rows = [
        LogRow(number, place.replicas[0], place.leader_id, 0, 0, tp.topic in INTERNAL_TOPICS)
        for number, tp in enumerate(tps)
        for place in [topics[tp.topic].partitions[tp.partition]]
        if place.replicas
    ]
    return {tps[number]: home for number, home in balanced(rows, nodes).items()}


def _show(rows: list[Row], *, dry_run: bool) -> None:
    if not rows:
        say("Nothing is to be moved: the nodes that are up have as many partitions as each other.")
        return
    if dry_run:
        print_fields(("partition", "from", "to"), rows, "partition", "from", "to")
    gets = Counter(row["to"] for row in rows)
    where = ", ".join(f"{count} to node {node_id}" for node_id, count in sorted(gets.items()))
    say(f"{count_of(len(rows), 'partition')} {'would move' if dry_run else 'moved'}: {where}.")


async def _keen(admin: ClusterAdmin) -> list[int]:
    """The nodes that are up and do not drain."""
    cluster, fenced = await admin.describe_cluster(), await admin.fenced_brokers()
    return sorted({one.node_id for one in cluster.brokers} - fenced)


def _replicas(topics: Mapping[str, TopicInfo], place: PartitionInfo, home: int) -> list[int]:
    """As many as the topic has, the home first. A partition that is led away from home shows one more."""
    factor = min(len(one.replicas) for one in topics[place.topic].partitions.values())
    return [home, *(one for one in place.replicas if one != home)][: max(factor, 1)]


async def _arrived(admin: Any, homes: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
    """Wait until partitions are led by their homes; those that are not by then."""
    until = asyncio.get_running_loop().time() + timeout_s
    while True:
        topics = await admin.describe_topics({tp.topic for tp in homes})
        left = [tp for tp, home in homes.items() if topics[tp.topic].partitions[tp.partition].leader_id != home]
        if not left or asyncio.get_running_loop().time() >= until:
            return left
        await asyncio.sleep(LOOK_S)


def _still(left: list[TopicPartition], timeout_s: float) -> Refused | None:
    if not left:
        return None
    some = ", ".join(map(label, left[:3])) + (", …" if len(left) > 3 else "")
    return Refused(
        f"{count_of(len(left), 'partition')} {'has' if len(left) == 1 else 'have'} not been handed over after "
        f"{timeout_s:g} s: {some}.",
        "They go on moving by themselves. `ottla cluster status` shows whether their nodes are up.",
    )
