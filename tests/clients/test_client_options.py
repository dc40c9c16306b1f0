"""Options: a bad one names the key, the value and what is allowed."""

import ssl
from typing import Any

import pytest

from ottla.clients import Admin, Consumer, OptionError, Producer
from ottla.clients.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions

SASL = {"security_protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("options", "given", "key", "allowed"),
    [
        (ClientOptions, {"bootstrap_servers": ""}, "bootstrap_servers", "host:port"),
        (ClientOptions, {"bootstrap_servers": "localhost:x"}, "bootstrap_servers", "'localhost:x' is not"),
        (ClientOptions, {"bootstrap_servers": ["ok", "h:99999"]}, "bootstrap_servers", "'h:99999' is not"),
        (ClientOptions, {"request_timeout_ms": 0}, "request_timeout_ms", "an integer from 1"),
        (ClientOptions, {"request_timeout_ms": 1.5}, "request_timeout_ms", "an integer from 1"),
        (ClientOptions, {"request_timeout_ms": True}, "request_timeout_ms", "an integer from 1"),
        (ClientOptions, {"security_protocol": "TLS"}, "security_protocol", "'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT'"),
        (
            ClientOptions,
            {"ssl_cafile": "/ca.pem"},
            "ssl_cafile",
            "as security_protocol is 'PLAINTEXT'; say SASL_SSL or SSL",
        ),
        (ClientOptions, {"sasl_plain_username": "a", "security_protocol": "SSL"}, "sasl_plain_username", "'SSL'"),
        (ClientOptions, {"sasl_mechanism": "GSSAPI", **SASL}, "sasl_mechanism", "'OAUTHBEARER'"),
        (ClientOptions, {**SASL}, "sasl_plain_username", "it is needed, as"),
        (ClientOptions, {**SASL, "sasl_plain_username": "a"}, "sasl_plain_password", "it is needed, as"),
        (ClientOptions, {**SASL, "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token_provider", "it is needed"),
        (
            ClientOptions,
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_plain_username": "a"},
            "sasl_plain_username",
            "it means nothing, as security_protocol is 'SASL_PLAINTEXT' and sasl_mechanism is 'OAUTHBEARER'",
        ),
        (ClientOptions, {"security_protocol": "SSL", "ssl_keyfile": "/key.pem"}, "ssl_certfile", "certificate"),
        (
            ClientOptions,
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_check_hostname": False},
            "ssl_check_hostname",
            "True, as there is an ssl_context",
        ),
        (ClientOptions, {"client_id": ""}, "client_id", "not empty"),
        (ClientOptions, {"client_id": "\ud800"}, "client_id", "a text"),
        (ProducerOptions, {"acks": 2}, "acks", "0, 1, -1, 'all'"),
        (ProducerOptions, {"acks": True}, "acks", "0, 1, -1, 'all'"),
        (ProducerOptions, {"acks": 1, "enable_idempotence": True}, "acks", "'all'"),
        (
            ProducerOptions,
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
            "max_in_flight_requests_per_connection",
            "1 to 5",
        ),
        (ProducerOptions, {"compression_type": "brotli"}, "compression_type", "'gzip', 'snappy', 'lz4', 'zstd'"),
        (ProducerOptions, {"delivery_timeout_ms": 1000}, "delivery_timeout_ms", "linger_ms + request_timeout_ms"),
        (ProducerOptions, {"linger_ms": -1}, "linger_ms", "from 0"),
        (ProducerOptions, {"partitioner": 3}, "partitioner", "a function"),
        (ConsumerOptions, {"auto_offset_reset": "beginning"}, "auto_offset_reset", "'earliest', 'latest', 'none'"),
        (ConsumerOptions, {"isolation_level": "serializable"}, "isolation_level", "'read_committed'"),
        (ConsumerOptions, {"group_id": ""}, "group_id", "not empty"),
        (ConsumerOptions, {"group_id": "x" * 0x8000}, "group_id", "a text"),
        (ConsumerOptions, {"client_rack": "\ud800"}, "client_rack", "a text"),
        (ConsumerOptions, {"group_instance_id": "i"}, "group_instance_id", "no group_id"),
        (
            ConsumerOptions,
            {"session_timeout_ms": 3000, "heartbeat_interval_ms": 3000},
            "heartbeat_interval_ms",
            "less than session_timeout_ms",
        ),
        (ConsumerOptions, {"max_poll_records": 0}, "max_poll_records", "from 1"),
        (ConsumerOptions, {"enable_auto_commit": 1}, "enable_auto_commit", "True or False"),
        (AdminOptions, {"default_api_timeout_ms": "60"}, "default_api_timeout_ms", "an integer"),
    ],
)
def test_a_bad_value(options: type[ClientOptions], given: dict[str, Any], key: str, allowed: str) -> None:
    with pytest.raises(OptionError) as caught:
        options.of(given)
    assert str(caught.value).startswith(f"{key}={given.get(key)!r}: ")
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("options", "name", "hint"),
    [
        (ConsumerOptions, "group.id", "did you mean group_id"),
        (ConsumerOptions, "auto_offset_rest", "did you mean auto_offset_reset"),
        (ProducerOptions, "group_id", "Producer has no such option; it is one of Consumer$"),
        (ConsumerOptions, "acks", "Consumer has no such option; it is one of Producer$"),
        (ConsumerOptions, "key_serializer", "it is one of Producer; did you mean key_deserializer"),
        (ProducerOptions, "default_api_timeout_ms", "it is one of Consumer and Admin; did you mean "),
        (ConsumerOptions, "servers", "Consumer has no such option; "),
        (AdminOptions, "zzz", "^zzz='x': Admin has no such option; docs/client.md lists those that it has$"),
    ],
)
def test_an_unknown_option(options: type[ClientOptions], name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=hint):
        options.of({name: "x"})


def test_the_clients_say_it_when_they_are_made() -> None:
    for make in (Producer, Consumer, Admin):
        with pytest.raises(OptionError, match="no such option"):
            make(bootstrap_server="x")
    for strategy in ("best", 7, [], ["range", 7], ["range", "range"]):
        with pytest.raises(OptionError, match=r"^partition_assignment_strategy=.*: allowed are one or more of range, "):
            Consumer(partition_assignment_strategy=strategy)


@pytest.mark.parametrize("topics", [["t1"], ("t1",), 3, None])
def test_topics_are_separate_arguments(topics: Any) -> None:
    with pytest.raises(OptionError, match=r"^topics=.*: allowed are names.*separate arguments.*Consumer\(\*topics"):
        Consumer(topics, group_id="g")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("h", [("h", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("fe80::1", [("fe80::1", 9092)]),
    ],
)
def test_servers(given: Any, expected: list[tuple[str, int]]) -> None:
    assert ClientOptions(bootstrap_servers=given).servers() == expected


def test_idempotence_is_on_unless_something_excludes_it() -> None:
    assert ProducerOptions().idempotent
    assert ProducerOptions(acks="all").idempotent
    assert not ProducerOptions(acks=1).idempotent
    assert not ProducerOptions(max_in_flight_requests_per_connection=6).idempotent
    assert not ProducerOptions(enable_idempotence=False).idempotent


def test_acks_on_the_wire() -> None:
    assert [ProducerOptions(acks=acks).acks_on_wire for acks in (0, 1, -1, "all", None)] == [0, 1, -1, -1, -1]


def test_the_rebalance_timeout_is_the_poll_interval_unless_given() -> None:
    assert ConsumerOptions(max_poll_interval_ms=7).join_timeout_ms == 7
    assert ConsumerOptions(max_poll_interval_ms=7, rebalance_timeout_ms=9).join_timeout_ms == 9


def test_a_context_makes_ssl() -> None:
    assert ClientOptions(security_protocol="SSL", ssl_context=ssl.create_default_context())


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_plain_password": "my-secret"},
        {**SASL, "sasl_plain_password": "my-secret", "sasl_mechanism": "OAUTHBEARER"},
        {**SASL, "sasl_plain_username": "a", "sasl_plain_password": b"my-secret"},
        {**SASL, "sasl_plain_username": "a", "sasl_password": "my-secret"},
        {"ssl_password": "my-secret"},
        {"password": "my-secret"},
    ],
)
def test_a_secret_is_in_no_message(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as caught:
        ClientOptions.of(given)
    assert "my-secret" not in str(caught.value)


def test_a_secret_is_in_no_repr() -> None:
    options = ConsumerOptions(**SASL, sasl_plain_username="alice", sasl_plain_password="my-secret")
    assert "my-secret" not in repr(options) and "alice" in repr(options)
