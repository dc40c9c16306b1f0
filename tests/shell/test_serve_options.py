"""`ottla serve` ends with exit code 2 and one clear line for options that cannot be used."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from ottla.broker.endpoints import Endpoint
from ottla.cli.database_node import name_of
from ottla.cli.main import command as ottla
from ottla.cli.serve import command, settings_of

Warnings = Callable[..., list[dict[str, Any]]]
STOCK = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
CLUSTER = "postgresql://me@127.0.0.1/logs"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "localhost"], "write HOST:PORT"),
        (["--cluster", CLUSTER, "--data-dir", "data"], "leave out --data-dir"),
        (["--cluster", CLUSTER, "--ephemeral"], "leave out --ephemeral"),
        (
            ["--cluster", CLUSTER, "--nodes", "3", "--listen", "9092", "--http", "9093"],
            "PLAINTEXT://localhost:9092 and HTTP at 9093 would meet",
        ),
        (["--cluster", CLUSTER, "--workbench"], "leave out --cluster"),
        (
            ["--cluster", CLUSTER, "--set", "message.max.bytes=67108865"],
            "message.max.bytes=67108865: a cluster over a database takes 67108864 at most",
        ),
        (["--cluster", CLUSTER, "--listen", "0"], "say --listen, --node-id or ottla.node.name"),
        (["--cluster", "mysql://h/d", "--set", "node.id=1"], "begins with postgresql://"),
        (["--cluster", CLUSTER, "--set", "node.id=1", "--set", "ottla.cluster.schema=A b"], "no name of a schema"),
        (["--listen", "localhost:99999"], "0 to 65535"),
        (["--listen", "99999"], "0 to 65535"),
        (["--http", ":9644"], "say --http 9644 to serve this machine alone"),
        (["--advertise", ":9092"], "clients need a host"),
        (["--set", "num.partitions"], "write KEY=VALUE"),
        (["--set", "num.partitions=0"], "num.partitions=0: allowed are 1 to 2147483647"),
        (["--listen", ":9092"], "say --listen 127.0.0.1:9092 to serve this machine alone, --tls-cert FILE --sasl"),
        (["--set", "listeners=PLAINTEXT://:9092"], "listeners='PLAINTEXT://:9092': other machines reach this"),
        (
            ["--http", "0.0.0.0:9644"],
            "say --http 9644 to serve this machine alone, --http-token-file FILE, or --insecure",
        ),
        (
            ["--set", "listeners=SSL://localhost:9093"],
            "SSL needs a certificate; say --tls-cert FILE, or set ssl.keystore",
        ),
        (
            ["--http", "0", "--http-token-file", "/no/such/file"],
            "ottla.http.token.file='/no/such/file': No such file or directory; `ottla token new NAME",
        ),
        (["--set", "listeners=localhost:9092"], "allowed is NAME://HOST:PORT, or several with commas"),
        (["--set", "listeners="], "allowed is NAME://HOST:PORT, or several with commas"),
        (
            ["--set", "listeners=CONTROLLER://:9093"],
            "listener.security.protocol.map does not say which protocol CONTROLLER has; add CONTROLLER: to it, and one "
            "of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            ["--set", "listeners=PLAINTEXT://localhost:1,SSL://localhost:1"],
            "each name and each port may stand there once",
        ),
        (["--set", "listeners=SSL://localhost:1,ssl://localhost:2"], "each name and each port may stand there once"),
        (["--set", "listener.security.protocol.map=A:TLS"], "A:TLS: allowed is NAME:PROTOCOL with PLAINTEXT, SSL"),
        (["--set", "advertised.listeners=SSL://localhost:9092"], "SSL is no listener"),
        (["--set", "advertised.listeners=PLAINTEXT://0.0.0.0:9092"], "clients need a host and a port"),
        (["--sasl", "PLAIN", "--set", "listeners=PLAINTEXT://localhost:9092"], "are for the listener of --listen"),
        (["--tls-key", "key.pem"], "say --tls-cert FILE, too"),
        (
            ["--sasl", "PLAIN,GSSAPI"],
            "allowed are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; there is no GSSAPI, which is Kerberos",
        ),
        (
            ["--set", "authorizer.class.name=com.acme.Foo"],
            "allowed are nothing, org.apache.kafka.metadata.authorizer.StandardAuthorizer, kafka.security",
        ),
        (["--set", "listeners=SASL_PLAINTEXT://localhost:1", "--set", "sasl.enabled.mechanisms="], "has no mechanism"),
        (["--listen", ":9092", "--sasl", "PLAIN"], "nothing is encrypted; say --tls-cert FILE, or --insecure"),
        (["--set", "listeners=SASL_PLAINTEXT://:9092"], "with PLAIN passwords go over the network as they are"),
        (
            ["--set", "listeners=SSL://:9093", "--set", "ssl.keystore.location=x"],
            "say SSL://127.0.0.1:9093 in listeners to serve this machine alone, "
            "listener.name.ssl.ssl.client.auth=required to ask who comes",
        ),
        (["--set", "ssl.keystore.type=JKS"], "keytool -importkeystore"),
        (["--set", "ssl.engine.factory.class=a.b.C"], "there is no such protection here"),
        (
            ["--set", "listener.name.in.ssl.client.auht=required"],
            "(--set): there is no such setting; did you mean listener.name.in.ssl.client.auth?",
        ),
        (["--set", "group.max.siz=3"], "there is no such setting; did you mean group.max.size?"),
        (["--set", "log.dirs=/a,/b"], "allowed is one directory; name one, or say --data-dir DIR"),
        (["--ready-file", "/no/such/place/file"], "there is no directory"),
        (["--create-topic", "t:0"], "at least one partition"),
        (["--create-topic", "t:²"], "at least one partition"),
        (["--listen", "localhost:²"], "write HOST:PORT"),
        (["--ephemeral", "--data-dir", "somewhere"], "leave out --data-dir"),
        (["--config", "/nonexistent.properties"], "does not exist"),
    ],
)
def test_a_bad_option_says_what_is_allowed(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("pairs", "listener", "name"),
    [
        ((), Endpoint("a", 9092), "a:9092"),
        ((), Endpoint("", 9092, advertised=("b.example", 19092)), "b.example:19092"),
        ((), Endpoint("10.0.0.7", 9092), "10.0.0.7:9092"),
        ((), Endpoint("localhost", 9093), f"{socket.getfqdn()}:9093"),
        ((), Endpoint("127.0.0.1", 9093), f"{socket.getfqdn()}:9093"),
        (("ottla.node.name=left",), Endpoint("a", 0), "left"),
        (("node.id=1",), Endpoint("a", 0), ""),
    ],
)
def test_a_node_without_an_id_goes_by_where_it_is(pairs: tuple[str, ...], listener: Endpoint, name: str) -> None:
    assert name_of(settings_of(None, pairs).settings, listener) == name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"group.max.size=none\n", "group.max.size='none'"),
        (
            b"autorizer.class.name=x\n",
            "server.properties): there is no such setting; did you mean authorizer.class.name?",
        ),
        ("# größer\nnum.partitions=3\n".encode("latin-1"), "is not in UTF-8"),
    ],
    ids=["a bad line", "a slip that would leave all open", "another encoding"],
)
def test_a_properties_file_that_cannot_be_used(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(content)
    test_a_bad_option_says_what_is_allowed(["--config", str(file)], said)


@pytest.fixture
def warnings_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Warnings:
    """What is logged of a properties file that a broker starts with."""

    def run(main: Coroutine[Any, Any, int]) -> int:
        main.close()
        return 0

    def logged(text: str, *options: str, where: str = "--ephemeral") -> list[dict[str, Any]]:
        file = tmp_path / "server.properties"
        file.write_text(text)
        result = CliRunner().invoke(command, [*where.split(), "--log-format", "json", "--config", str(file), *options])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stderr.splitlines()]

    monkeypatch.setattr("ottla.cli.serve._run", run)
    monkeypatch.setattr("ottla.cli.serve.check_keys", lambda found, settings: None)  # there are no such files
    return logged


MAPPED = STOCK.replace("listeners=PLAINTEXT://localhost:9092,", "listeners=PLAINTEXT://localhost:19092,", 1)


@pytest.mark.parametrize(
    ("text", "options", "told", "said"),
    [
        (STOCK, "--listen localhost:9092", ("localhost", 9092), []),
        (STOCK, "--listen localhost:29192", ("localhost", 29192), ["The advertised port follows --listen"]),
        (STOCK, "--listen localhost:0", None, ["The advertised port follows --listen"]),
        (STOCK, "--listen localhost:29192 --advertise here:9092", ("here", 9092), []),
        (MAPPED, "", ("localhost", 9092), []),
        (MAPPED, "--listen 29192", ("localhost", 9092), ["Clients are told another port than --listen says"]),
        (
            "advertised.listeners=PLAINTEXT://here:9092\n",
            "--listen 29192",
            ("here", 9092),
            ["Clients are told another port than --listen says"],
        ),
        (
            "listeners=SSL://kafka.example:9093\nssl.keystore.location=x\nottla.insecure=true",
            "",
            ("kafka.example", 9093),
            [],
        ),
        ("listeners=SSL://10.0.0.1:9093\nssl.keystore.location=x\nottla.insecure=true", "", None, []),
        ("listeners=SSL://[::1]:9093\nssl.keystore.location=x", "", None, []),
        ("listeners=SSL://localhost:9093\nssl.keystore.location=x", "", ("localhost", 9093), []),
        ("listeners=PLAINTEXT://localhost:9093", "", None, []),
    ],
)
def test_clients_are_told_the_port_that_is_listened_on(
    warnings_of: Warnings,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: str,
    told: tuple[str, int] | None,
    said: list[str],
) -> None:
    """Who moves a broker with --listen must not have its clients sent to the broker that has the old port."""
    serve = Mock()
    monkeypatch.setattr("ottla.cli.serve._serve", serve)
    lines = warnings_of(text, *options.split())
    assert [[one.told for one in call.kwargs["endpoints"]] for call in serve.call_args_list] == [[told]]
    lines = [line for line in lines if line.get("key") == "advertised.listeners"]
    assert [line["event"].partition(":")[0] for line in lines] == said
    for line in lines:
        assert line["configured"] == text.partition("advertised.listeners=PLAINTEXT://")[2].split(",")[0].split()[0]
        assert line["clients_connect_to"] == (
            "the address that they reached" if told is None else f"{told[0]}:{told[1]}"
        )


@pytest.mark.parametrize("where", ["--ephemeral", "--data-dir somewhere"])
def test_directories_of_the_file_do_not_matter_where_others_are_named(warnings_of: Warnings, where: str) -> None:
    assert warnings_of("log.dirs=/a,/b\n", where=where) == []


def test_the_listeners_of_controllers_are_told_to_be_left_out(warnings_of: Warnings) -> None:
    text = (
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    )
    said = warnings_of(text)
    assert [(line["level"], line["keys"]) for line in said] == [
        ("info", "listeners CONTROLLER://:9093, advertised.listeners CONTROLLER://localhost:9093")
    ]


def test_that_everybody_may_come_is_told(warnings_of: Warnings) -> None:
    assert warnings_of("listeners=PLAINTEXT://localhost:9092\n") == []
    (said,) = warnings_of("listeners=PLAINTEXT://:9092\nottla.insecure=true\n")
    assert said["event"] == "The broker is open to other machines: whoever reaches it may do everything"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listeners=SASL_PLAINTEXT://localhost:9092\n", None),
        (
            "listeners=SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=SCRAM-SHA-512\n",
            "SASL_PLAINTEXT on all interfaces, port 9092 (nothing is encrypted, there are no access rules)",
        ),
        (
            "listeners=PLAINTEXT://localhost:1,SASL_SSL://0.0.0.0:2\nssl.keystore.location=/keys.pem\n",
            "SASL_SSL://0.0.0.0:2 (there are no access rules)",
        ),
        (
            "listeners=SASL_SSL://0.0.0.0:2\nssl.keystore.location=/keys.pem\nauthorizer.class.name="
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer\n",
            None,
        ),
        (
            "listeners=SSL://[::]:2\nssl.keystore.location=/keys.pem\nssl.client.auth=required\n",
            "SSL://[::]:2 (there are no access rules)",
        ),
    ],
)
def test_what_is_open_to_other_machines_is_told(warnings_of: Warnings, text: str, said: str | None) -> None:
    lines = [line["listen"] for line in warnings_of(text) if line["event"].startswith("The broker is open")]
    assert lines == ([] if said is None else [said])


def test_an_option_makes_the_listener_safe(warnings_of: Warnings, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = Mock()
    monkeypatch.setattr("ottla.cli.serve._serve", serve)
    for options, protocol in (
        ("--listen 0", "PLAINTEXT"),
        ("--listen 0 --tls-cert c.pem", "SSL"),
        ("--listen 0 --sasl PLAIN", "SASL_PLAINTEXT"),
        ("--sasl PLAIN --tls-cert c.pem", "SASL_SSL"),
    ):
        warnings_of("", *options.split())
        (one,) = serve.call_args.kwargs["endpoints"]
        assert (one.name, one.protocol, one.host) == (protocol, protocol, "localhost")


@pytest.mark.parametrize(
    ("listeners", "options", "found"),
    [
        ("SASL_SSL://:9092", "--listen 0", "SASL_SSL://localhost:0 SASL_SSL"),
        ("SASL_SSL://:9092", "--listen :21801", "SASL_SSL://:21801 SASL_SSL"),
        ("IN://:9092", "--listen 0", "IN://localhost:0 SASL_PLAINTEXT"),
        ("IN://:9092", "--listen 0 --tls-cert c.pem", "IN://localhost:0 SASL_SSL"),
        ("SSL://:9092", "--listen 0 --sasl SCRAM-SHA-512", "SSL://localhost:0 SASL_SSL"),
        ("PLAINTEXT://:9092", "--listen 0 --sasl SCRAM-SHA-512", "SASL_PLAINTEXT://localhost:0 SASL_PLAINTEXT"),
        ("OUT://localhost:1,PLAINTEXT://localhost:2", "--listen 0", "PLAINTEXT://localhost:0 PLAINTEXT"),
    ],
)
def test_an_option_takes_nothing_away_from_a_listener_of_the_settings(
    warnings_of: Warnings, monkeypatch: pytest.MonkeyPatch, listeners: str, options: str, found: str
) -> None:
    serve = Mock()
    monkeypatch.setattr("ottla.cli.serve._serve", serve)
    protocols = "IN:SASL_PLAINTEXT,OUT:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"
    warnings_of(
        f"listeners={listeners}\nlistener.security.protocol.map={protocols}\nssl.keystore.location=x\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-512\n",
        *options.split(),
    )
    assert [f"{one} {one.protocol}" for one in serve.call_args.kwargs["endpoints"]] == [found]


@pytest.mark.parametrize("options", ["--listen 0", "--listen 0 --sasl SCRAM-SHA-512"])
def test_an_option_does_not_stand_for_several_listeners_of_which_one_is_secured(options: str) -> None:
    settings = "listeners=PLAINTEXT://localhost:1,SASL_SSL://:2"
    test_a_bad_option_says_what_is_allowed(
        ["--set", settings, *options.split()],
        "the settings name 2, with TLS or SASL: leave --listen out, or say the other addresses as --set " + settings,
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mlts", "no listener is named mlts; did you mean listener.name.mtls.ssl.client.auth?"),
        ("internal", "no listener is named internal; allowed are mtls"),
    ],
)
def test_a_setting_for_a_listener_that_there_is_not_ends_the_start(name: str, said: str) -> None:
    """Kafka ignores it, and whoever has no certificate would get in."""
    settings = (
        "listeners=MTLS://localhost:9093", "listener.security.protocol.map=MTLS:SSL", "ssl.keystore.location=x",
        f"listener.name.{name}.ssl.client.auth=required",
    )  # fmt: skip
    test_a_bad_option_says_what_is_allowed([word for one in settings for word in ("--set", one)], said)


def test_a_setting_for_a_listener_of_controllers_is_left_out_with_it(warnings_of: Warnings) -> None:
    (said,) = warnings_of(STOCK + "listener.name.controller.ssl.client.auth=required\n")
    assert said["event"] == "Settings that one broker alone does not need are left out"


def test_a_check_tells_that_an_issuer_of_tokens_has_no_keys() -> None:
    settings = (
        "listeners=SASL_PLAINTEXT://localhost:9092", "sasl.enabled.mechanisms=OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url=http://127.0.0.1:1/keys", "sasl.oauthbearer.expected.issuer=i",
        "sasl.oauthbearer.expected.audience=a",
    )  # fmt: skip
    result = CliRunner().invoke(command, ["--check", *(word for one in settings for word in ("--set", one))])
    assert result.exit_code == 0
    assert "the keys of the issuer of tokens cannot be fetched" in result.stderr
    assert "listener=SASL_PLAINTEXT" in result.stderr and "url=http://127.0.0.1:1/keys" in result.stderr


def test_only_close_spellings_are_suggested(warnings_of: Warnings) -> None:
    text = "delegation.token.max=3\nmax.connection.creation.rate=9\nlog.retention.hour=1\n"
    said = warnings_of(text)
    assert [(line.get("did_you_mean"), line.get("keys")) for line in said] == [
        ("log.retention.hours", None),
        (None, "delegation.token.max, max.connection.creation.rate"),
    ]


def test_super_users_without_rules_are_told(warnings_of: Warnings) -> None:
    (said,) = warnings_of("super.users=User:admin\n")
    assert said["event"] == "There are no access rules: super.users means nothing without authorizer.class.name"


def test_what_comes_with_kafka_is_told_in_one_line(warnings_of: Warnings) -> None:
    """As config/server.properties of Kafka 4.3 has it."""
    (said,) = warnings_of(STOCK)
    assert said["level"] == "info"
    assert said["event"] == "Settings that one broker alone does not need are left out"
    assert len(said["keys"].split(", ")) == 12


def test_what_would_change_something_and_does_not_yet_is_warned_of(warnings_of: Warnings) -> None:
    (said,) = warnings_of("min.insync.replicas=2\nlog.preallocate=false\nlog.cleaner.threads=4\n")
    assert (said["level"], said["keys"]) == ("warning", "min.insync.replicas, log.cleaner.threads")


def test_whoever_stops_it_before_it_is_ready_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(main: Coroutine[Any, Any, int]) -> int:
        main.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.cli.serve._run", run)
    result = CliRunner().invoke(ottla, ["serve", "--ephemeral"])
    assert (result.exit_code, result.stderr) == (130, "Stopped before it was done.\n")
