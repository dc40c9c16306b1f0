"""The options of the source, checked: every bad value is refused with its name and what is allowed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from ottla.clients.errors import OptionError
from ottla.clients.structs import EARLIEST, LATEST
from ottla.pipeline.codec import KINDS
from ottla.pipeline.source.option_names import known_options
from ottla.pipeline.source.security import Secured, parse_security
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition

D = TypeVar("D")

DECODES = (*KINDS, "ends")
TASKS_VARIABLE = "OTTLA_PIPELINE_TASKS"
"""Environment variable with the default of ``tasks``; `register` sets it for the processes that plan."""

_LARGEST = (1 << 63) - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Isolation(IntEnum):
    """The records of transactions that are read (KIP-98); the values are the wire's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A place in partitions at which reading begins or ends.

    Attributes:
        default: `EARLIEST` or `LATEST`: for partitions that are not named.
        offsets: for those that are: an offset, or one of the two.
        timestamp_ms: at the first record of that time or later, instead of all that.
    """

    default: int
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one read; see docs/pipeline-source.md for what each means.

    Attributes:
        servers: addresses to begin with, or nothing if ``path`` is read.
        assigned: partitions by topic, if only some are wanted.
        timeout_ms: how long one request, or all tries for one answer, may take.
        secured: how connections begin.
    """

    decode: str
    servers: tuple[tuple[str, int], ...]
    path: str
    topics: tuple[str, ...]
    pattern: str
    assigned: tuple[TopicPartition, ...]
    starting: Place
    ending: Place
    strict_timestamp: bool
    max_offsets_per_trigger: int | None
    min_partitions: int
    tasks: int
    fail_on_data_loss: bool
    include_headers: bool
    isolation: Isolation
    group: str
    sample_interval_ms: int
    client_id: str
    request_timeout_ms: int
    timeout_ms: int
    fetch_bytes: int
    retries: int
    retry_interval_ms: int
    secured: Secured

    @property
    def where(self) -> str:
        """The cluster or the directory, for messages."""
        return self.path or ",".join(f"{host}:{port}" for host, port in self.servers)

    def wants(self, tp: TopicPartition) -> bool:
        """Tell whether a partition of a topic that is read is read itself."""
        return not self.assigned or tp in self.assigned


def parse_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Check options as Spark hands them over.

    Raises:
        OptionError: one is unknown or cannot be.
    """
    options = known_options(given)
    decode = _one_of(options, "decode", DECODES, "raw")
    servers, path = _where(options)
    topics, pattern, assigned = _subscription(options, decode)
    committed = topics == (OFFSETS_TOPIC,) or decode not in ("raw", "ends")
    default = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    if streaming:
        for name in ("endingOffsets", "endingTimestamp"):
            if name in options:
                raise OptionError(
                    f"option {name!r} is not possible for a stream, which has no end; use read, not readStream"
                )
    tasks = os.environ.get(TASKS_VARIABLE) or str(2 * (os.cpu_count() or 2))
    if options.get("group") and not servers:
        raise OptionError("option 'group' is not possible with 'path': there is no broker that could keep its offsets")
    return Options(
        decode=decode,
        servers=servers,
        path=path,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=_place(options, "starting", LATEST if streaming and decode == "raw" else EARLIEST),
        ending=_place(options, "ending", LATEST),
        strict_timestamp=_one_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"), "latest")
        == "error",
        max_offsets_per_trigger=_number(options, "maxOffsetsPerTrigger", 1, _LARGEST, None),
        min_partitions=_number(options, "minPartitions", 1, 100_000, 1),
        tasks=_number({"tasks": tasks} | options, "tasks", 1, 100_000, 1),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        include_headers=_flag(options, "includeHeaders", False),
        isolation=Isolation[_one_of(options, "isolation", _ISOLATIONS, default.name.lower()).upper()],
        group=options.get("group", ""),
        sample_interval_ms=_number(options, "sampleIntervalMs", 0, 86_400_000, 10_000),
        client_id=options.get("kafka.client.id", "ottla-pipeline"),
        request_timeout_ms=_number(options, "kafka.request.timeout.ms", 1, 3_600_000, 30_000),
        timeout_ms=_number(options, "kafka.default.api.timeout.ms", 1, 3_600_000, 60_000),
        fetch_bytes=_number(options, "kafka.max.partition.fetch.bytes", 1, 1 << 28, 4 << 20),
        retries=_number(options, "fetchOffset.numRetries", 0, 1000, 10),
        retry_interval_ms=_number(options, "fetchOffset.retryIntervalMs", 0, 60_000, 100),
        secured=parse_security(options),
    )


_ISOLATIONS = tuple(one.name.lower() for one in Isolation)


def _where(options: Mapping[str, str]) -> tuple[tuple[tuple[str, int], ...], str]:
    listed, path = options.get("kafka.bootstrap.servers", ""), options.get("path", "")
    if bool(listed) == bool(path):
        raise OptionError(
            "one of the options 'kafka.bootstrap.servers' (host:port, several with commas) and 'path' (a directory) "
            f"has to be given, not {'both' if listed else 'none'}"
        )
    servers = []
    for one in filter(None, (part.strip() for part in listed.split(","))):
        host, colon, port = one.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise _bad("kafka.bootstrap.servers", listed, "host:port, several with commas, e.g. localhost:9092")
        servers.append((host.strip("[]"), int(port)))
    return tuple(servers), path.removeprefix("file://")


def _subscription(options: Mapping[str, str], decode: str) -> tuple[tuple[str, ...], str, tuple[TopicPartition, ...]]:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(given) > 1:
        raise OptionError(f"only one of the options {', '.join(given)} can be given")
    if decode not in ("raw", "ends"):
        topic = GROUP_EVENTS_TOPIC if decode == "events" else OFFSETS_TOPIC
        if given == ["subscribe"]:
            # A copy of the topic under another name is read so.
            return _topics(options["subscribe"], "subscribe"), "", ()
        if given and given != ["assign"]:
            raise OptionError(f"option {given[0]!r} is not possible with decode={decode}, which reads {topic}")
        return (topic,), "", _assigned(options["assign"]) if given else ()
    if not given:
        if decode == "ends":
            return (), "", ()
        raise OptionError("one of the options subscribe, subscribePattern and assign has to be given with decode=raw")
    value = options[given[0]]
    if given == ["subscribe"]:
        return _topics(value, "subscribe"), "", ()
    if given == ["assign"]:
        assigned = _assigned(value)
        return tuple(dict.fromkeys(tp.topic for tp in assigned)), "", assigned
    try:
        re.compile(value)
    except re.error as error:
        raise _bad("subscribePattern", value, f"a regular expression ({error})") from None
    return (), value, ()


def _topics(value: str, name: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if not all(_TOPIC.fullmatch(topic) for topic in topics):
        raise _bad(name, value, "names of topics, with commas between them")
    return topics


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    allowed = 'JSON such as {"orders": [0, 1]}'
    document = _json(value, "assign", allowed)
    found = []
    for topic, partitions in document.items():
        if not isinstance(partitions, list) or not all(type(one) is int and one >= 0 for one in partitions):
            raise _bad("assign", value, allowed)
        found += [TopicPartition(topic, one) for one in partitions]
    if not found:
        raise _bad("assign", value, allowed)
    return tuple(dict.fromkeys(found))


def _place(options: Mapping[str, str], which: str, default: int) -> Place:
    by_time, by_offset = f"{which}Timestamp", f"{which}Offsets"
    if by_time in options:
        return Place(default, timestamp_ms=_number(options, by_time, 0, _LARGEST, None))
    value = options.get(by_offset)
    if value is None:
        return Place(default)
    words = {"earliest": EARLIEST, "latest": LATEST}
    if which == "ending":
        del words["earliest"]
    if value.strip().lower() in words:
        return Place(words[value.strip().lower()])
    allowed = f'{", ".join(words)} or JSON such as {{"orders": {{"0": 23, "1": -1}}}} (-1 latest' + (
        ", -2 earliest)" if which == "starting" else ")"
    )
    found = []
    for topic, offsets in _json(value, by_offset, allowed).items():
        for partition, offset in offsets.items() if isinstance(offsets, dict) else [("", None)]:
            lowest = EARLIEST if which == "starting" else LATEST
            if not partition.isdecimal() or type(offset) is not int or not lowest <= offset <= _LARGEST:
                raise _bad(by_offset, value, allowed)
            found.append((TopicPartition(topic, int(partition)), offset))
    return Place(default, tuple(found))


def _json(value: str, name: str, allowed: str) -> dict[str, object]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _bad(name, value, allowed)
    return document


def _number(options: Mapping[str, str], name: str, low: int, high: int, default: D) -> int | D:
    value = options.get(name)
    if value is None:
        return default
    text = value.strip()
    if not text.removeprefix("-").isdecimal() or len(text) > 20 or not low <= int(text) <= high:
        raise _bad(
            name, value, f"a whole number from {low} to {high}" if high < _LARGEST else f"a whole number from {low}"
        )
    return int(text)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    return _one_of(options, name, ("true", "false"), str(default).lower()) == "true"


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = options.get(name, default)
    if value.strip().lower() not in allowed:
        raise _bad(name, value, f"one of {', '.join(allowed)}")
    return value.strip().lower()


def _bad(name: str, value: str, allowed: str) -> OptionError:
    return OptionError(f"option {name!r} is {value!r}; allowed: {allowed}")
