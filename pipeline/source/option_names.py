"""The names of options: those of Spark's Kafka connector, ours, and what is said about those that cannot be."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ottla.clients.errors import OptionError
from ottla.pipeline.source.security import SECURITY_NAMES, SECURITY_PREFIXES, refuse_security

# By the spelling in lower case, as Spark's options know no case. "kafka." is what the connector passes to its client.
NAMES = {
    name.lower(): name
    for name in (
        "assign",
        "decode",
        "endingOffsets",
        "endingTimestamp",
        "failOnDataLoss",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "group",
        "includeHeaders",
        "isolation",
        "kafka.bootstrap.servers",
        "kafka.client.id",
        "kafka.default.api.timeout.ms",
        "kafka.max.partition.fetch.bytes",
        "kafka.request.timeout.ms",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "path",
        "sampleIntervalMs",
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
        "subscribe",
        "subscribePattern",
        "tasks",
        *SECURITY_NAMES,
    )
}
_ALIASES = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "client.id": "kafka.client.id",
    "kafka.isolation.level": "isolation",
    "isolation.level": "isolation",
}
# They speak of how the Java client works, which cannot be seen in the rows.
_WITHOUT_EFFECT = {
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "kafka.max.poll.records",
    "kafka.max.poll.interval.ms",
    "kafka.fetch.min.bytes",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.receive.buffer.bytes",
    "kafka.send.buffer.bytes",
    "kafka.check.crcs",
    "kafka.client.dns.lookup",
    "kafka.client.rack",
    "kafka.connections.max.idle.ms",
    "kafka.metadata.max.age.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.reconnect.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.retry.backoff.max.ms",
    "kafka.session.timeout.ms",
    "kafka.heartbeat.interval.ms",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.socket.connection.setup.timeout.max.ms",
    "kafka.allow.auto.create.topics",
    "kafka.exclude.internal.topics",
    "kafka.enable.metrics.push",
}
_REFUSED = {
    "kafka.group.id": "the source joins no group; option 'group' mirrors its progress to one",
    "kafka.auto.offset.reset": "use 'startingOffsets'",
    "kafka.key.deserializer": "keys are given as bytes; deserialize them in the query",
    "kafka.value.deserializer": "values are given as bytes; deserialize them in the query",
    "kafka.enable.auto.commit": "offsets are kept in Spark's checkpoint; option 'group' mirrors them to a group",
    "kafka.interceptor.classes": "there is no Java client that could load them",
    "startingoffsetsbytimestamp": "use 'startingTimestamp', one time for all partitions",
    "endingoffsetsbytimestamp": "use 'endingTimestamp', one time for all partitions",
    "minoffsetspertrigger": "the trigger's interval decides how often there is a batch; use 'maxOffsetsPerTrigger'",
    "maxtriggerdelay": "it goes with minOffsetsPerTrigger, which there is not; the trigger's interval decides",
    "maxrecordsperpartition": "use 'minPartitions', or 'tasks'",
}


def known_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options under their proper names, without those that have no effect.

    Raises:
        OptionError: one is unknown, given twice, or cannot be; the message names it and says what is possible.
    """
    found: dict[str, str] = {}
    for key, value in given.items():
        folded = key.lower()
        if folded in _WITHOUT_EFFECT:
            continue
        if reason := _REFUSED.get(folded):
            raise OptionError(f"option {key!r} ({value!r}) is not possible: {reason}")
        folded = _ALIASES.get(folded, folded)
        if folded.startswith(SECURITY_PREFIXES):
            folded = folded if folded.startswith("kafka.") else f"kafka.{folded}"
            if folded not in SECURITY_NAMES:
                raise refuse_security(key)
        if (name := NAMES.get(folded.lower())) is None:
            raise OptionError(_unknown(key))
        if found.setdefault(name, value) != value:
            if name in SECURITY_NAMES:
                raise OptionError(f"option {name!r} is given twice, with different values")
            raise OptionError(f"option {name!r} is given twice, as {found[name]!r} and as {value!r}")
    return found


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key.lower(), [*NAMES, *_ALIASES], n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(NAMES.get(one, one) for one in near)}?" if near else ""
    return f"unknown option {key!r}{hint}" if hint else f"unknown option {key!r}; there are {', '.join(NAMES.values())}"
