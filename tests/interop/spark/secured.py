"""A broker that asks who comes: by SASL over TLS, and by certificate. `tests.interop.secured` starts it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.interop.python.harness import Skipped
from tests.interop.python.secured import EVERY_S, TOLD, sasl
from tests.interop.spark.harness import AVAILABLE, T, raises, test, values
from tests.support.kit import Row, kit_of
from tests.support.waiting import wait_for

MODULES = "org.apache.kafka.common.security"
Settings = dict[str, object]


def trusting(listener: str, protocol: str) -> Settings:
    return {
        "kafka_bootstrap_servers": TOLD[listener],
        "kafka_security_protocol": protocol,
        "kafka_ssl_truststore_type": "PEM",
        "kafka_ssl_truststore_location": TOLD["CA"],
    }


def password(mechanism: str, module: str, *, listener: str = "SAFE", wrong: bool = False) -> Settings:
    given = "wrong" if wrong else TOLD["PASSWORD"]
    return {
        **trusting(listener, "SASL_SSL"),
        "kafka_sasl_mechanism": mechanism,
        "kafka_sasl_jaas_config": f'{MODULES}.{module} required username="{TOLD["USER"]}" password="{given}";',
    }


SCRAM = ("SCRAM-SHA-512", "scram.ScramLoginModule")
PLAIN = ("PLAIN", "plain.PlainLoginModule")


def write_and_read(t: T, right: Settings, wrong: Settings, refusal: str) -> None:
    """Write a batch, read it as a batch and as a stream; and be refused."""
    t.write(t.spark.range(20).selectExpr("CAST(id AS STRING) AS value"), t.topic, **right)
    t.finish(t.start(t.stream(**right), "memory", trigger=AVAILABLE, name=t.name))
    for frame in (t.read(**right), t.spark.table(t.name)):
        assert sorted(map(int, values(frame))) == list(range(20))
    with raises(refusal):
        t.read(**wrong).collect()


@test
def secured_scram(t: T) -> None:
    write_and_read(t, password(*SCRAM), password(*SCRAM, wrong=True), "SaslAuthenticationException")


@test
def secured_plain(t: T) -> None:
    write_and_read(t, password(*PLAIN), password(*PLAIN, wrong=True), "SaslAuthenticationException")


@test
def secured_oauthbearer(t: T) -> None:
    raise Skipped("what Kafka's client reads tokens with (jose4j) is not among the jars of Spark and its connector")


@test
def secured_mutual_tls(t: T) -> None:
    shown = {
        "kafka_ssl_keystore_type": "PEM",
        "kafka_ssl_keystore_certificate_chain": Path(TOLD["CERT"]).read_text("ascii"),
        "kafka_ssl_keystore_key": Path(TOLD["KEY"]).read_text("ascii"),
    }
    wrong = trusting("MUTUAL", "SSL")
    write_and_read(t, {**wrong, **shown}, wrong, "SslAuthenticationException")


@test
def secured_reauthentication(t: T) -> None:
    """Stream for some lifetimes of a session: it is renewed each time, and nothing is lost or comes twice."""
    kit, given = kit_of("kafka-python", TOLD["BRIEF"]), sasl("kafka-python", "SCRAM-SHA-512")
    written = 0
    end = time.monotonic() + int(TOLD["READING_MS"]) / 1000
    query = None
    while time.monotonic() < end:
        rows = [Row(str(written + one).encode()) for one in range(10)]
        kit.produce(t.topic, rows, partition=0, **given)
        written += len(rows)
        if query is None:
            query = t.start(t.stream(**password(*SCRAM, listener="BRIEF")), "memory", name=t.name)
        time.sleep(EVERY_S)
    wait_for(lambda: t.spark.table(t.name).count() >= written, "everything to be read")
    assert values(t.spark.table(t.name)) == [str(one) for one in range(written)]
