"""Keys of Kafka's brokers that change while it runs and mean nothing here: threads, replicas, TLS (KIP-226)."""

from __future__ import annotations

import re

from ottla.broker.core.configs.kinds import ConfigType

_NAMES = {
    ConfigType.BOOLEAN: """
        follower.fetch.last.tiered.offset.enable
        transaction.partition.verification.enable
    """,
    ConfigType.STRING: """
        listener.security.protocol.map
        sasl.kerberos.kinit.cmd
        sasl.kerberos.service.name
        sasl.mechanism.inter.broker.protocol
        ssl.client.auth
        ssl.endpoint.identification.algorithm
        ssl.keymanager.algorithm
        ssl.keystore.location
        ssl.keystore.type
        ssl.protocol
        ssl.provider
        ssl.secure.random.implementation
        ssl.trustmanager.algorithm
        ssl.truststore.location
        ssl.truststore.type
    """,
    ConfigType.INT: """
        background.threads
        group.coordinator.cached.buffer.max.bytes
        group.share.assignment.interval.ms
        group.streams.assignment.interval.ms
        log.cleaner.io.buffer.size
        max.connection.creation.rate
        num.io.threads
        num.network.threads
        num.recovery.threads.per.data.dir
        num.replica.fetchers
        remote.fetch.max.wait.ms
        remote.log.manager.copier.thread.pool.size
        remote.log.manager.expiration.thread.pool.size
        remote.log.manager.follower.thread.pool.size
        remote.log.reader.threads
        share.coordinator.cached.buffer.max.bytes
    """,
    ConfigType.SHORT: """
        sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds
    """,
    ConfigType.LONG: """
        follower.replication.throttled.rate
        leader.replication.throttled.rate
        log.local.retention.bytes
        log.local.retention.ms
        remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes
        remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.fetch.max.bytes.per.second
        replica.alter.log.dirs.io.max.bytes.per.second
        sasl.kerberos.min.time.before.relogin
    """,
    ConfigType.DOUBLE: """
        log.cleaner.io.buffer.load.factor
        sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor
        sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter
    """,
    ConfigType.LIST: """
        config.providers
        cordoned.log.dirs
        metric.reporters
        sasl.enabled.mechanisms
        sasl.kerberos.principal.to.local.rules
        ssl.cipher.suites
        ssl.enabled.protocols
    """,
    ConfigType.CLASS: """
        principal.builder.class
        ssl.engine.factory.class
    """,
}

IDLE_KEYS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""Kafka 4.3's dynamic broker keys that are no settings of ours. Passwords are not among them: they are never shown."""

_OF_A_LISTENER = re.compile(r"^listener\.name\.[^.]*\.")


def idle_type(key: str) -> ConfigType | None:
    """The type of a key that Kafka knows, be it for one listener, and that is stored without effect; else None."""
    return IDLE_KEYS.get(_OF_A_LISTENER.sub("", key))
