"""A look at a cluster before Spark reads it: its id, its internal topics, and where their logs end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.pipeline.config import Config
    from ottla.pipeline.source.options import Options
    from ottla.pipeline.source.rows import Logs as Source


class NoCluster(Exception):
    """There is nothing to read; the message says what and where."""


class Logs(NamedTuple):
    """The first offsets of a topic's partitions, and the ends, by partition."""

    begins: dict[int, int]
    ends: dict[int, int]


class Cluster(NamedTuple):
    """The cluster that is read.

    Attributes:
        cluster_id: None where it says none.
        topics: the internal topics that are there.
    """

    cluster_id: str | None
    topics: dict[str, Logs]

    @property
    def has_events(self) -> bool:
        """Tell whether the cluster records why groups rebalance, as Ottla does and Apache Kafka does not."""
        return GROUP_EVENTS_TOPIC in self.topics


def look(config: Config) -> Cluster:
    """Ask the broker, or look into the folder.

    Raises:
        NoCluster: nobody answers, or the folder has no ``__consumer_offsets``.
    """
    topics = {}
    with opened(config) as logs:
        for name, topic in logs.topics((OFFSETS_TOPIC, GROUP_EVENTS_TOPIC)).items():
            bounds = logs.bounds([TopicPartition(name, number) for number in topic.partitions])
            topics[name] = Logs(
                {tp.partition: one.start for tp, one in bounds.items()},
                {tp.partition: one.end for tp, one in bounds.items()},
            )
        found = Cluster(config.cluster_id or logs.cluster_id or None, topics)
    if config.log_dir and OFFSETS_TOPIC not in topics:
        raise NoCluster(f"There is no {OFFSETS_TOPIC} in {config.log_dir}: name the folder that has its partitions.")
    return found


@contextmanager
def opened(config: Config) -> Iterator[Source]:
    """The cluster or the log directory that is to be read, for a ``with``.

    Raises:
        NoCluster: it cannot be read, in the block either.
    """
    from ottla.clients.errors import KafkaError, OptionError
    from ottla.pipeline.source.logs import SourceError
    from ottla.pipeline.source.rows import open_logs

    try:
        with closing(open_logs(options_of(config))) as logs:
            yield logs
    except (SourceError, KafkaError, OptionError) as error:
        # The option that was given here has another name there.
        raise NoCluster(str(error).replace("option 'kafka.bootstrap.servers'", "--bootstrap-server")) from None


def options_of(config: Config) -> Options:
    """The source's options for a look at what is to be read.

    Raises:
        OptionError: one cannot be.
    """
    from ottla.pipeline.source.options import parse_options

    # Whoever waits at a terminal is told soon; the source itself is more patient with brokers that restart.
    patience = {"fetchOffset.numRetries": "3", "kafka.default.api.timeout.ms": "10000"}
    given = config.source_options(decode="commits", isolation=config.isolation, **patience)
    return parse_options(given, streaming=False)
