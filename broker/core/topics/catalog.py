"""The catalog: which topics there are, what was set for brokers, groups and users, and which producer ids were given.

A `Catalog` is never changed. A change gives a new one, whose `state` is made durable before it takes the place of the
old one: what is shown to clients is on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from ottla.broker.core.quotas.entities import Quotas, quotas_from_state, quotas_state
from ottla.broker.core.refusal import Refusal as Refusal
from ottla.broker.core.security.acls import Acls, acls_from_state, acls_state
from ottla.broker.core.security.scram import Credentials, credentials_from_state, credentials_state
from ottla.broker.core.topics.configs import invalid
from ottla.broker.core.topics.homes import FOLLOWERS, Dealer
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode

MAX_TOPIC_NAME = 249
MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka refuses requests that create more."""
PRODUCER_ID_BLOCK = 1_000
FORMAT = 1
FORMAT_WITH_HOMES = 2
"""The format where partitions have homes: an earlier release would take them all for its own."""

UNFINISHED = "unfinished"
"""The key of the command that brings logs to where this catalog is, and has not done so yet."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicEntry(NamedTuple):
    """A topic as the catalog holds it.

    Attributes:
        homes: the node of each partition; empty in the catalog of a single node.
        replication_factor: how many nodes each partition is shown with; see `ottla.broker.cluster.view.replicas_of`.
        assigned: the nodes of partitions for which somebody has named them, the home first.
    """

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str]
    homes: tuple[int, ...] = ()
    replication_factor: int = 1
    assigned: Mapping[int, tuple[int, ...]] = MappingProxyType({})

    def moved(self, partition: int, nodes: Sequence[int]) -> TopicEntry:
        """The topic with other nodes for a partition, the home first."""
        homes = (*self.homes[:partition], nodes[0], *self.homes[partition + 1 :])
        return self._replace(homes=homes, assigned={**self.assigned, partition: tuple(nodes)})


class NewTopic(NamedTuple):
    """A topic that somebody wants: counts (-1 for the broker's default), or brokers by partition; and settings."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


class BadCatalog(Exception):
    """A stored catalog that this version cannot read; the message says why."""


def invalid_name(name: str) -> str | None:
    """The fault of a topic name, or None."""
    if not name:
        return "Topic name is empty"
    if name in (".", ".."):
        return "Topic name cannot be '.' or '..'"
    if len(name) > MAX_TOPIC_NAME:
        return f"Topic name is longer than {MAX_TOPIC_NAME} characters"
    if not _LEGAL_NAME.fullmatch(name):
        return "Topic name has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


Permit = Callable[[int], Refusal | None]
"""Counts partitions that somebody wants to create or delete, and says why they may not."""

Configs = Mapping[str, Mapping[str, str]]
"""Settings by the name of what has them."""


@dataclass(frozen=True, eq=False)
class Catalog:
    """Topics by name, and the end of the last block of producer ids.

    Attributes:
        broker_configs: what was set while brokers ran, by node id; "" for all of them. group_configs: by group id.
        quotas: of clients. credentials: of users. acls: what they may do.
    """

    topics: Mapping[str, TopicEntry] = field(default_factory=dict)
    next_producer_id: int = 0
    broker_configs: Configs = field(default_factory=dict)
    group_configs: Configs = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)
    credentials: Credentials = field(default_factory=dict)
    acls: Acls = ()

    @cached_property
    def _collisions(self) -> dict[str, str]:
        """Kafka's metric names cannot tell '.' from '_', so names that differ only there must not coexist."""
        return {name.replace(".", "_"): name for name in self.topics}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Catalog:
        """Read what `state` gave; None is the catalog of a new broker.

        Raises:
            BadCatalog: it is of a later format, not a catalog at all, or its logs are on their way.
        """
        if state is None:
            return cls()
        if unfinished := state.get(UNFINISHED):
            raise BadCatalog(f"`{unfinished}` was interrupted, or goes on: say it again to finish it")
        if (found := state.get("format")) not in (FORMAT, FORMAT_WITH_HOMES):
            formats = f"{FORMAT} and {FORMAT_WITH_HOMES}"
            raise BadCatalog(f"the catalog has format {found}, this version reads formats {formats}")
        try:
            topics = {name: _entry_of(name, row) for name, row in state["topics"].items()}
            return cls(
                topics,
                int(state["next_producer_id"]),
                broker_configs={name: dict(row) for name, row in state.get("brokers", {}).items()},
                group_configs={name: dict(row) for name, row in state.get("groups", {}).items()},
                quotas=quotas_from_state(state.get("quotas", ())),
                credentials=credentials_from_state(state.get("scram", ())),
                acls=acls_from_state(state.get("acls", ())),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadCatalog(f"the catalog cannot be read: {error!r}") from None

    def state(self) -> dict[str, Any]:
        """The catalog as JSON has it."""
        topics = {
            entry.name: {
                "topic_id": str(entry.topic_id),
                "partitions": entry.partition_count,
                "configs": dict(entry.configs),
            }
            | ({"homes": list(entry.homes)} if entry.homes else {})
            | ({"replication_factor": entry.replication_factor} if entry.replication_factor > 1 else {})
            | ({"assigned": [[index, *nodes] for index, nodes in entry.assigned.items()]} if entry.assigned else {})
            for entry in self.topics.values()
        }
        kept_as = FORMAT_WITH_HOMES if any(entry.homes for entry in self.topics.values()) else FORMAT
        state: dict[str, Any] = {"format": kept_as, "next_producer_id": self.next_producer_id, "topics": topics}
        if self.broker_configs:
            state["brokers"] = {name: dict(row) for name, row in self.broker_configs.items()}
        if self.group_configs:
            state["groups"] = {name: dict(row) for name, row in self.group_configs.items()}
        if self.quotas:
            state["quotas"] = quotas_state(self.quotas)
        if self.credentials:
            state["scram"] = credentials_state(self.credentials)
        if self.acls:
            state["acls"] = acls_state(self.acls)
        return state

    def with_topics(self, put: Iterable[TopicEntry] = (), *, remove: Collection[str] = ()) -> Catalog:
        """A catalog with topics added or replaced, and others removed."""
        topics = {name: entry for name, entry in self.topics.items() if name not in remove}
        topics.update((entry.name, entry) for entry in put)
        return replace(self, topics=topics)

    def with_homes(self, home: int) -> Catalog:
        """The catalog of a single node as several nodes go on with it: what has no home yet has this one."""
        homeless = [entry for entry in self.topics.values() if not entry.homes]
        put = {entry.name: entry._replace(homes=(home,) * entry.partition_count) for entry in homeless}
        catalog = self.with_topics(put.values()) if put else self
        followers = []
        for name, followed in FOLLOWERS.items():
            entry, other = catalog.topics.get(name), catalog.topics.get(followed)
            if entry is not None and other is not None and entry.partition_count < other.partition_count:
                homes = entry.homes + other.homes[entry.partition_count :]
                followers.append(entry._replace(partition_count=other.partition_count, homes=homes))
        return catalog.with_topics(followers) if followers else catalog

    def without_homes(self) -> Catalog:
        """The catalog as a single node goes on with it, at which everything is at home."""
        put = [
            entry._replace(homes=(), replication_factor=1, assigned={}) for entry in self.topics.values() if entry.homes
        ]
        return self.with_topics(put) if put else self

    def dealer(self, nodes: Sequence[int]) -> Dealer:
        """Gives new partitions their homes."""
        return Dealer(((entry.name, entry.homes) for entry in self.topics.values()), nodes)

    def plan_topics(
        self,
        wanted: Sequence[NewTopic],
        new_topic_id: Callable[[], UUID],
        settings: Settings,
        broker_ids: Collection[int],
        dealt_to: Sequence[int] = (),
        most_replicas: int = 1,
    ) -> list[TopicEntry | Refusal]:
        """For each wanted topic the entry that it would get, or why it cannot be created.

        Args:
            dealt_to: the nodes at which new partitions are at home; none in the catalog of a single node.
            most_replicas: more than 1 where nodes share a database.
        """
        plans: list[TopicEntry | Refusal] = []
        folded: dict[str, str] = {}
        dealer = self.dealer(dealt_to)
        for topic in wanted:
            plan = self._plan_topic(topic, new_topic_id, settings, broker_ids, folded, most_replicas)
            if isinstance(plan, TopicEntry):
                folded[plan.name.replace(".", "_")] = plan.name
                by_hand = [brokers[0] for _, brokers in sorted(topic.assignments)]
                plan = plan._replace(homes=dealer.deal(plan.name, plan.partition_count, by_hand))
            plans.append(plan)
        return within_limit(plans)

    def _plan_topic(
        self,
        wanted: NewTopic,
        new_topic_id: Callable[[], UUID],
        settings: Settings,
        broker_ids: Collection[int],
        planned: Mapping[str, str],
        most_replicas: int,
    ) -> TopicEntry | Refusal:
        """The order of the checks is Kafka's."""
        name = wanted.name
        if problem := invalid_name(name):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name in self.topics:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        folded = name.replace(".", "_")
        if other := self._collisions.get(folded) or planned.get(folded):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic '{other}'")
        if problem := invalid(wanted.configs):
            return Refusal(ErrorCode.INVALID_CONFIG, problem)
        if wanted.assignments:
            if refusal := _check_assignments(wanted, broker_ids, most_replicas):
                return refusal
            count, factor = len(wanted.assignments), len(wanted.assignments[0][1])
        else:
            if refusal := _check_counts(wanted, settings, broker_ids, most_replicas):
                return refusal
            count = settings.num_partitions if wanted.partition_count == -1 else wanted.partition_count
            factor = _factor(wanted, settings)
        configs = {key: value.strip() for key, value in wanted.configs if value is not None}
        assigned = {index: tuple(brokers) for index, brokers in wanted.assignments if factor > 1}
        return TopicEntry(name, new_topic_id(), count, configs, replication_factor=factor, assigned=assigned)

    def plan_growth(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        broker_ids: Collection[int],
        dealer: Dealer,
        most_replicas: int = 1,
    ) -> TopicEntry | Refusal:
        """The entry that a topic would have with ``count`` partitions, or why it cannot have them (KIP-195)."""
        entry = self.topics.get(name)
        if entry is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
        if count == entry.partition_count:
            return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s)")
        if count < entry.partition_count:
            text = f"The topic has {entry.partition_count} partition(s); a topic can only grow, not to {count}"
            return Refusal(ErrorCode.INVALID_PARTITIONS, text)
        added = count - entry.partition_count
        if assignments is not None:
            if len(assignments) != added:
                text = f"{added} partition(s) are to be added, but there are {len(assignments)} assignments"
                return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            for brokers in assignments:
                if refusal := _check_brokers(brokers, broker_ids, most_replicas):
                    return refusal
        homes = dealer.deal(name, added, [brokers[0] for brokers in assignments or ()])
        named = enumerate(map(tuple, assignments or ()), entry.partition_count)
        assigned = {**entry.assigned, **{index: nodes for index, nodes in named if most_replicas > 1}}
        return entry._replace(partition_count=count, homes=entry.homes + homes, assigned=assigned)


def _entry_of(name: str, row: Mapping[str, Any]) -> TopicEntry:
    homes = tuple(map(int, row.get("homes", ())))
    entry = TopicEntry(
        name,
        UUID(row["topic_id"]),
        int(row["partitions"]),
        dict(row["configs"]),
        homes,
        int(row.get("replication_factor", 1)),
        {int(index): tuple(map(int, nodes)) for index, *nodes in row.get("assigned", ())},
    )
    if homes and len(homes) != entry.partition_count:
        raise ValueError(f"{name} has {entry.partition_count} partition(s) and {len(homes)} home(s)")
    return entry


def within_limit(plans: list[TopicEntry | Refusal], already: int = 0) -> list[TopicEntry | Refusal]:
    """The plans of one request, or a refusal of each if together they add too many partitions."""
    added = sum(plan.partition_count for plan in plans if isinstance(plan, TopicEntry)) - already
    if added <= MAX_PARTITIONS_PER_REQUEST:
        return plans
    text = f"A request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most"
    return [Refusal(ErrorCode.POLICY_VIOLATION, text) for _ in plans]


def permitted(
    plans: list[TopicEntry | Refusal],
    permit: Permit | None,
    partitions: Callable[[TopicEntry], int],
    said: dict[str, Refusal | None],
) -> list[TopicEntry | Refusal]:
    """The plans of one request, with a refusal for each that may not be carried out.

    Args:
        said: what was said of each topic, as a request that is planned again is not asked for again.
    """
    if permit is None:
        return plans
    outcomes: list[TopicEntry | Refusal] = []
    for plan in plans:
        if isinstance(plan, TopicEntry) and plan.name not in said:
            said[plan.name] = permit(partitions(plan))
        outcomes.append(plan if isinstance(plan, Refusal) else said[plan.name] or plan)
    return outcomes


def _check_assignments(wanted: NewTopic, broker_ids: Collection[int], most_replicas: int) -> Refusal | None:
    if wanted.replication_factor != -1 or wanted.partition_count != -1:
        what = "replication factor" if wanted.replication_factor != -1 else "number of partitions"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Partitions were assigned by hand, so the {what} must be -1")
    replicas = len(wanted.assignments[0][1])
    seen = set()
    for partition, brokers in wanted.assignments:
        if partition in seen:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {partition} is assigned twice")
        seen.add(partition)
        if refusal := _check_brokers(brokers, broker_ids, most_replicas):
            return refusal
        if len(brokers) != replicas:
            text = f"Partition {partition} has {len(brokers)} replica(s), others have {replicas}"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if seen != set(range(len(seen))):
        text = "The assigned partitions must be numbered from 0 without holes"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None


def _check_brokers(brokers: Sequence[int], broker_ids: Collection[int], most_replicas: int) -> Refusal | None:
    if not brokers:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "An assignment has no replicas")
    if len(set(brokers)) != len(brokers):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"An assignment names a broker twice: {list(brokers)}")
    for broker in brokers:
        if broker not in broker_ids:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {broker}")
    if len(brokers) > most_replicas:
        text = f"Each partition is kept by one broker; {len(brokers)} are named: {list(brokers)}"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return None


def _factor(wanted: NewTopic, settings: Settings) -> int:
    return settings.default_replication_factor if wanted.replication_factor == -1 else wanted.replication_factor


def _check_counts(
    wanted: NewTopic, settings: Settings, broker_ids: Collection[int], most_replicas: int
) -> Refusal | None:
    if wanted.replication_factor < -1 or wanted.replication_factor == 0:
        text = "The replication factor must be larger than 0, or -1 for the default"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if wanted.partition_count < -1 or wanted.partition_count == 0:
        text = "The number of partitions must be larger than 0, or -1 for the default"
        return Refusal(ErrorCode.INVALID_PARTITIONS, text)
    factor = _factor(wanted, settings)
    if factor > most_replicas:
        why = f"only {most_replicas} broker(s) are registered"
        if len(broker_ids) > most_replicas:
            why = f"each partition is kept by one of the {len(broker_ids)} brokers"
        text = f"The target replication factor of {factor} cannot be reached because {why}."
        if len(broker_ids) > most_replicas:
            where = " in default.replication.factor" if wanted.replication_factor == -1 else ""
            text += f" Use 1{where}: with --nodes there are no replicas."
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {text}"
        )
    return None
