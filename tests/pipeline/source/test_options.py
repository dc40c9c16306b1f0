"""Options are checked before anything is read; what is refused says what is allowed."""

import pickle

import pytest

from ottla.clients.errors import OptionError
from ottla.clients.structs import EARLIEST, LATEST
from ottla.pipeline.source.options import TASKS_VARIABLE, Isolation, Options, Place, parse_options
from ottla.protocol.records import TopicPartition
from tests.pipeline.source.test_tls import CERTIFICATE, KEY

SERVERS = {"kafka.bootstrap.servers": "h:1"}


def parse(streaming: bool = False, **options: str) -> Options:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return parse_options(SERVERS | {"subscribe": "orders"} | given, streaming=streaming)


def test_defaults_are_those_of_the_kafka_connector() -> None:
    assert parse().starting == Place(EARLIEST)
    assert parse(streaming=True).starting == Place(LATEST)
    assert parse().ending == Place(LATEST)
    assert parse().fail_on_data_loss
    assert parse().isolation is Isolation.READ_UNCOMMITTED


def test_internal_topics_are_read_committed_and_from_their_beginning() -> None:
    options = parse_options(SERVERS | {"decode": "commits"}, streaming=True)
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.starting == Place(EARLIEST)
    assert options.topics == ("__consumer_offsets",)
    assert parse_options(SERVERS | {"decode": "events"}, streaming=True).topics == ("__ottla_group_events",)
    assert parse_options(SERVERS | {"decode": "ends"}, streaming=True).isolation is Isolation.READ_UNCOMMITTED


def test_names_know_no_case_and_bootstrap_servers_may_lack_its_prefix() -> None:
    options = parse_options({"BOOTSTRAP.SERVERS": "a:1, [::1]:2", "SUBSCRIBE": "a,b"}, streaming=False)
    assert options.servers == (("a", 1), ("::1", 2))
    assert options.topics == ("a", "b")


def test_tasks_are_twice_the_turns_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TASKS_VARIABLE, "14")
    assert parse().tasks == 14
    assert parse(tasks="3").tasks == 3


def test_places_by_partition_and_by_time() -> None:
    options = parse(startingOffsets='{"orders": {"0": 5, "1": -2}}', endingOffsets='{"orders": {"0": -1}}')
    assert options.starting.offsets == ((TopicPartition("orders", 0), 5), (TopicPartition("orders", 1), EARLIEST))
    assert options.ending.offsets == ((TopicPartition("orders", 0), LATEST),)
    assert parse(startingTimestamp="12").starting.timestamp_ms == 12


def test_what_only_concerns_the_java_client_is_accepted() -> None:
    options = {"kafka__max__poll__records": "20000", "groupIdPrefix": "x", "kafka__security__protocol": "PLAINTEXT"}
    assert parse(**options) == parse()


SASL = {"kafka.security.protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOfsets": "latest"}, ["unknown option 'startingOfsets'", "startingOffsets"]),
        ({"xyzzy": "1"}, ["unknown option 'xyzzy'", "there are", "subscribe"]),
        ({"decode": "offsets"}, ["'decode'", "'offsets'", "raw, commits"]),
        ({"tasks": "0"}, ["'tasks'", "'0'", "from 1"]),
        ({"maxOffsetsPerTrigger": "many"}, ["'maxOffsetsPerTrigger'", "'many'", "whole number"]),
        ({"maxOffsetsPerTrigger": "--5"}, ["'maxOffsetsPerTrigger'", "'--5'", "whole number"]),
        ({"startingOffsets": "[" * 100_000}, ["'startingOffsets'", "earliest, latest or JSON"]),
        ({"failOnDataLoss": "yes"}, ["'failOnDataLoss'", "'yes'", "true, false"]),
        ({"isolation": "serializable"}, ["'isolation'", "read_committed"]),
        ({"startingOffsets": "first"}, ["'startingOffsets'", "'first'", "earliest, latest or JSON"]),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, ["'startingOffsets'", "-2 earliest"]),
        ({"endingOffsets": "earliest"}, ["'endingOffsets'", "allowed: latest"]),
        ({"subscribe": "a b"}, ["'subscribe'", "'a b'"]),
        ({"assign": "{}"}, ["only one of", "subscribe, assign"]),
        ({"subscribePattern": "("}, ["only one of"]),
        ({"path": "/data"}, ["kafka.bootstrap.servers", "path", "not both"]),
        ({"kafka__bootstrap__servers": "h"}, ["'kafka.bootstrap.servers'", "host:port"]),
        ({"kafka__sasl__mechanism": "PLAIN"}, ["'kafka.sasl.mechanism'", "SASL_PLAINTEXT or SASL_SSL"]),
        (
            {"kafka__sasl__kerberos__service__name": "kafka"},
            ["'kafka.sasl.kerberos.service.name'", "kafka.sasl.username"],
        ),
        ({"kafka__group__id": "g"}, ["'kafka.group.id'", "'g'", "option 'group'"]),
        ({"kafka__auto__offset__reset": "latest"}, ["use 'startingOffsets'"]),
        ({"startingOffsetsByTimestamp": "{}"}, ["use 'startingTimestamp'"]),
        ({"minOffsetsPerTrigger": "5"}, ["maxOffsetsPerTrigger"]),
        ({"kafka.security.protocol": "TLS"}, ["kafka.security.protocol='TLS'", "'PLAINTEXT', 'SSL'"]),
        ({"kafka.security.protocol": "SASL_SSL"}, ["option kafka.sasl.username=None", "SASL_SSL"]),
        (SASL | {"kafka.sasl.mechanism": "GSSAPI"}, ["option kafka.sasl.mechanism='GSSAPI'", "'OAUTHBEARER'"]),
        (SASL | {"kafka.sasl.username": "a"}, ["option kafka.sasl.password=None"]),
        (SASL | {"kafka.sasl.mechanism": "OAUTHBEARER"}, ["option kafka.sasl.oauthbearer.token.file=None"]),
        (SASL | {"kafka.sasl.jaas.config": "x required password=my/secret;"}, ["option kafka.sasl.jaas.config"]),
        (
            SASL | {"kafka.sasl.password": "my-secret", "sasl.password": "my-secret2"},
            ["'kafka.sasl.password' is given twice"],
        ),
        ({"kafka.ssl.ca.location": "x"}, ["'kafka.ssl.ca.location'", "kafka.security.protocol=SSL"]),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "/nowhere"}, ["'/nowhere'", "No such file"]),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": str(KEY)}, ["broker.key.pem", "PEM"]),
        ({"kafka.security.protocol": "SSL", "ssl.certificate.location": str(CERTIFICATE)}, ["broker.pem", "PEM"]),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "a.jks"}, ["truststore.type", "keytool"]),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "a"}, ["kafka.ssl.keystore.type=PEM"]),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": "maybe"},
            ["kafka.ssl.endpoint.identification.algorithm='maybe'", "https"],
        ),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decode": "raw"}, "subscribe, subscribePattern and assign"),
        ({"decode": "commits", "subscribePattern": ".*"}, "reads __consumer_offsets"),
        ({"decode": "raw", "assign": '{"orders": [-1]}'}, "'assign'"),
        ({"decode": "raw", "assign": "[]"}, "'assign'"),
        ({"decode": "raw", "subscribePattern": "("}, "a regular expression"),
    ],
)
def test_topics_that_cannot_be_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse_options(SERVERS | options, streaming=False)


def test_ends_are_refused_for_streams_and_groups_for_directories() -> None:
    with pytest.raises(OptionError, match="endingOffsets"):
        parse(streaming=True, endingOffsets="latest")
    with pytest.raises(OptionError, match="'group'"):
        parse_options({"path": "/x", "subscribe": "a", "group": "g"}, streaming=True)


def test_sasl() -> None:
    made = parse(**SASL, kafka__sasl__username="alice", kafka__sasl__password="alice-secret")
    assert made.secured.client_options() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }
    assert "alice-secret" not in repr(made)
    login = 'ScramLoginModule required username="alice" password="alice-secret";'
    spark = parse(**SASL, kafka__sasl__mechanism="SCRAM-SHA-512", kafka__sasl__jaas__config=login)
    assert spark.secured.client_options()["sasl_plain_password"] == "alice-secret"
    tokens = parse(**SASL, **{"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.oauthbearer.token.file": "/a b"})
    assert tokens.secured.client_options()["sasl_oauth_token_provider"].path == "/a b"
    assert pickle.loads(pickle.dumps(made)) == made
