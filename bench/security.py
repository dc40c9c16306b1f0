#!/usr/bin/env python3
"""Measure what it costs one Ottla process, and Apache Kafka with the same settings, to know who comes.

Of each there are two servers: one that asks nobody, with a listener in plain text and one with TLS, and one with
an authorizer, a hundred rules and SASL. Heartbeats and commits are compared with and without rules, heartbeats and
consuming with and without TLS; what is compared are the two turns of a pair. Then clients come and go: TLS handshakes
and logins by SCRAM; and names that are somebody's are told from others by the time that a refusal takes.
README.md next to this file says more.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import beside
import click
from before import Row
from commits import TOPIC, Committers, Kind, fill
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from heartbeat_groups import form_groups, heartbeats
from login_load import PASSWORD, SCRAM, USER
from records import PARTITIONS, bulk, client, kept
from report import CALLED, Figures, describe, plain, rewrite_section, section
from servers import (
    HERE,
    JUST_IN_TIME,
    OTTLA_OPTIONS,
    BenchError,
    Server,
    ask,
    choose_cores,
    compile_generator,
    cpu_seconds,
    framed,
    free_port,
    measure,
    pinned,
    prepared,
    raise_file_limit,
    running,
)

from ottla.broker.core.security.acls import AclOperation, Pattern, Permission, Resource
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.sasl.scram import salted_password

SERVERS = ("ottla", "kafka")
RULES = 100
OURS = (
    (Resource.TOPIC, TOPIC, Pattern.LITERAL),
    (Resource.GROUP, "bench-", Pattern.PREFIXED),
    (Resource.GROUP, "alone-", Pattern.PREFIXED),
)
"""What the user may read: the topic of the commits, and the groups of heartbeats and of commits."""
HEARTBEATS, COMMITS = 50, 64
"""Connections."""
RECORD_BYTES = 10_000
CLIENTS = 8
"""That come and go at a time."""
COMING = {"tls": "TLS handshakes", "SASL_PLAINTEXT": "logins by SCRAM", "SASL_SSL": "logins by SCRAM over TLS"}
TIMED = ("SCRAM-SHA-512", "PLAIN")
KAFKA_EVERY = 3
"""Apache Kafka takes part in each third pair: of it there is no goal."""
MODULES = "org.apache.kafka.common.security"
PLAIN_LOGIN = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITH_RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": "0",
    **{f"listener.name.{name}.plain.sasl.jaas.config": PLAIN_LOGIN for name in ("sasl_plaintext", "sasl_ssl")},
    **{
        f"listener.name.{name}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for name in ("sasl_plaintext", "sasl_ssl")
    },
}
GREETINGS = [
    framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)[4:],
    framed(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 1)[4:],
]
TRUSTING = ("security.protocol=ssl", "enable.ssl.certificate.verification=false")


@dataclass(slots=True)
class Pair:
    """Two turns that are compared: without and with what is to be safe.

    Attributes:
        costs: whether it is CPU that is compared, of which more is worse.
        goal: how much more CPU it may be, or how much of the rate shall be left.
    """

    load: str
    what: str
    costs: bool
    goal: float
    turns: tuple[Callable[[], float], Callable[[], float]]
    found: list[tuple[float, float]] = field(default_factory=list)


def make_key(directory: Path) -> Path:
    """A certificate for localhost with its key (ECDSA, P-256), in one PEM file that Kafka reads, too."""
    directory.mkdir(parents=True, exist_ok=True)
    key, cert, both = (directory / name for name in ("key.pem", "cert.pem", "both.pem"))
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "9",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    both.write_text(key.read_text() + cert.read_text())
    both.chmod(0o600)
    return both


@contextlib.contextmanager
def started(name: str, core: int | None, directory: Path, key: Path) -> Iterator[tuple[Server, Server]]:
    """A server that asks nobody, and one with rules."""
    common = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
        "listener.security.protocol.map": ",".join(f"{one}:{one}" for one in PROTOCOLS) + ",CONTROLLER:PLAINTEXT",
    }
    with contextlib.ExitStack() as stack:

        def start(what: str, settings: dict[str, str], protocols: Sequence[str]) -> Server:
            pairs = [f"{name}={value}" for name, value in (common | settings).items()]
            if name == "ottla":
                options = ["--data-dir", str(directory / f"{name}-{what}"), *OTTLA_OPTIONS]
                options += [word for pair in pairs for word in ("--set", pair)]
            else:
                options = [str(directory), *pairs]
            listeners = {protocol: free_port() for protocol in protocols}
            return stack.enter_context(running(name, core, options, listeners=listeners))

        yield start("open", {}, ["SSL"]), start("ruled", WITH_RULES, ["SASL_PLAINTEXT", "SASL_SSL"])


def make_rules(server: Server) -> None:
    """The user, and a hundred rules: three are about what he does, the others about what others do elsewhere."""
    salt, iterations = b"sixteen bytes!!!", 4096
    user = ScramCredentialUpsertion(
        name=USER, mechanism=SCRAM, iterations=iterations, salt=salt,
        salted_password=salted_password(SCRAM, PASSWORD, salt, iterations),
    )  # fmt: skip
    ask(server, AlterUserScramCredentialsRequest(deletions=[], upsertions=[user]), 0)

    def rule(number: int) -> AclCreation:
        kind, name, pattern = OURS[number % len(OURS)]
        is_ours = number < len(OURS)
        return AclCreation(
            resource_type=kind,
            resource_name=name if is_ours else f"other-{number}",
            resource_pattern_type=pattern,
            principal=f"User:{USER if is_ours else f'user-{number}'}",
            host="*",
            operation=AclOperation.READ,
            permission_type=Permission.ALLOW,
        )

    request = CreateAclsRequest(creations=[rule(number) for number in range(RULES)])
    answer = CreateAclsResponse.layout(1).decode(ask(server, request, 1))
    if any(row.error_code for row in answer.results):
        raise BenchError(f"{server.name}: CreateAcls answered {answer.results[0]}")


class Bench:
    """What is measured of one kind of server.

    Attributes:
        pairs: what is compared.
    """

    def __init__(self, name: str, servers: tuple[Server, Server], seconds: float, core: int | None) -> None:
        self.name, self._seconds, self._core = name, seconds, core
        self.open, self.ruled = servers
        make_rules(self.ruled)
        for server in servers:
            fill(server)
        self._topic = "consumed"
        admin = AdminClient({"bootstrap.servers": f"{self.open.host}:{self.open.port}", "log_level": 0})
        admin.create_topics([NewTopic(self._topic, PARTITIONS, 1)])[self._topic].result()
        client(self.open, core, "produce", self._topic, RECORD_BYTES, kept(RECORD_BYTES))
        self.pairs = [
            self._heartbeats_by_rules(),
            self._commits_by_rules(),
            *(self._heartbeats_by_tls(window, goal) for window, goal in ((1, 0.5), (10, 0.5))),
            self._consuming(),
        ]

    def _heartbeats_by_rules(self) -> Pair:
        def turn(server: Server, at: Server, greetings: Sequence[bytes]) -> Callable[[], float]:
            load = replace(heartbeats(form_groups(server, HEARTBEATS)), greetings=greetings)
            generator = compile_generator()
            return lambda: measure(generator, at, load, HEARTBEATS, 1, self._seconds, self._core).cpu_us

        turns = turn(self.open, self.open, ()), turn(self.ruled, self.ruled.by("SASL_PLAINTEXT"), GREETINGS)
        return Pair(f"heartbeat with rules, {HEARTBEATS} connections", "CPU, µs", True, 0.05, turns)

    def _commits_by_rules(self) -> Pair:
        def turn(server: Server, greetings: Sequence[bytes]) -> Callable[[], float]:
            committers = Committers(compile_generator(), server, Kind(COMMITS), self._core, greetings)
            return lambda: committers.turn(self._seconds)["cpu_us"]

        turns = turn(self.open, ()), turn(self.ruled.by("SASL_PLAINTEXT"), GREETINGS)
        return Pair(f"commit with rules, {COMMITS} connections", "CPU, µs", True, 0.05, turns)

    def _heartbeats_by_tls(self, window: int, goal: float) -> Pair:
        load = heartbeats(form_groups(self.open, HEARTBEATS, prefix=f"tls-{window}"))

        def turn(server: Server, generator: Path) -> Callable[[], float]:
            return lambda: measure(generator, server, load, HEARTBEATS, window, self._seconds, self._core).per_second

        turns = turn(self.open, compile_generator()), turn(self.open.by("SSL"), compile_generator(has_tls=True))
        return Pair(f"heartbeat by TLS, {HEARTBEATS} connections, window {window}", "per second", False, goal, turns)

    def _consuming(self) -> Pair:
        def turn(server: Server, settings: Sequence[str]) -> Callable[[], float]:
            load = "consume", self._topic, RECORD_BYTES, kept(RECORD_BYTES), settings
            return lambda: bulk(server, self._core, *load)["mb_per_second"]

        turns = turn(self.open, ()), turn(self.open.by("SSL"), TRUSTING)
        return Pair(f"consume by TLS, {RECORD_BYTES:,} bytes", "MB/s", False, 0.3, turns)

    def warm_up(self, seconds: float) -> None:
        """Have a server that compiles itself do so."""
        if self.name in JUST_IN_TIME:
            for pair in self.pairs:
                for turn in pair.turns:
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        turn()
            for kind in COMING:
                self.come_and_go(kind, seconds)

    def compare(self, number: int) -> None:
        """One turn of each load, without and with; the other one first in every second pair."""
        for pair in self.pairs:
            click.echo(f"pair {number + 1}: {self.name}, {pair.load}", err=True)
            value = {at: pair.turns[at]() for at in ((0, 1) if number % 2 else (1, 0))}
            pair.found.append((value[0], value[1]))

    def come_and_go(self, kind: str, seconds: float) -> dict[str, float]:
        """Let clients come and go for so long.

        Raises:
            BenchError: one was not let in.
        """
        server = self.open.by("SSL") if kind == "tls" else self.ruled.by(kind)
        command = [sys.executable, str(HERE / "login_load.py"), kind, server.host, str(server.port), str(seconds)]
        clients = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pinned(self._core))
            for _ in range(CLIENTS)
        ]
        for one in clients:
            assert one.stdout is not None
            one.stdout.readline()
        before, began = cpu_seconds(server), time.monotonic()
        for one in clients:
            assert one.stdin is not None
            one.stdin.write(b"\n")
            one.stdin.flush()
        told = [one.communicate()[0] for one in clients]
        took, used = time.monotonic() - began, cpu_seconds(server) - before
        if any(one.returncode for one in clients):
            raise BenchError(f"{self.name}: {COMING[kind]} failed")
        figures = [json.loads(one) for one in told]
        count = sum(one["count"] for one in figures)
        return {
            "per_second": count / took,
            "cpu_us": used / count * 1e6,
            "server_busy": used / took,
            "generator_busy": sum(one["cpu_seconds"] for one in figures) / took,
        }

    def timing(self, mechanism: str, exchanges: int) -> tuple[float, float]:
        """Microseconds until a wrong password is refused: of a user that there is, and of one that there is not.

        Raises:
            BenchError: one was let in, or was not answered.
        """
        server = self.ruled.by("SASL_PLAINTEXT")
        command = [sys.executable, str(HERE / "login_load.py"), "timing", mechanism, server.host, str(server.port)]
        done = subprocess.run([*command, str(exchanges)], capture_output=True, text=True, preexec_fn=pinned(self._core))
        if done.returncode:
            raise BenchError(f"{self.name}, {mechanism}: {done.stderr.strip().splitlines()[-1:]}")
        known, unknown = json.loads(done.stdout).values()
        return known, unknown


COLUMNS = {
    "per second": ("per_second", 0),
    "CPU µs": ("cpu_us", 0),
    "server busy": ("server_busy", 2),
    "generator busy": ("generator_busy", 2),
}


def compared(benches: Sequence[Bench]) -> list[tuple[str, ...]]:
    """A table of the pairs."""
    head = ("load", "server", "pairs", "without", "with", "with / without", "95 % interval", "goal", "verdict")
    table: list[tuple[str, ...]] = [head]
    for at in range(len(benches[0].pairs)):
        for bench in benches:
            pair = bench.pairs[at]
            if not pair.found:
                continue
            without, secured = (statistics.median(side) for side in zip(*pair.found, strict=True))
            ratio, low, high = (1 + value for value in Row(pair.load, pair.found).cost())
            digits = 1 if pair.costs else 0
            verdict, goal = "", ""
            if bench.name == "ottla":
                goal = f"≤ {1 + pair.goal:g}" if pair.costs else f"≥ {pair.goal:g}"
                verdict = "reached" if (ratio <= 1 + pair.goal if pair.costs else ratio >= pair.goal) else "**missed**"
            table.append(
                (f"{pair.load}: {pair.what}", CALLED[bench.name], str(len(pair.found)), f"{without:,.{digits}f}",
                 f"{secured:,.{digits}f}", f"{ratio:.2f}", f"{low:.2f} to {high:.2f}", goal, verdict)
            )  # fmt: skip
    return table


@click.command(help=__doc__)
@click.option("--pairs", default=12, show_default=True, type=click.IntRange(1), help="Of each load.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Of clients that come and go.")
@click.option("--exchanges", default=2_000, show_default=True, type=click.IntRange(1), help="To be refused, by name.")
@click.option("--warm-up", "warm", default=8.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of each load before a JVM is measured.")  # fmt: skip
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's sections.")
def main(
    pairs: int, seconds: float, only: tuple[str, ...], rounds: int, exchanges: int, warm: float, write: Path | None
) -> None:  # fmt: skip
    raise_file_limit()
    names, missing = prepared(only or SERVERS)
    figures = Figures(missing)
    server_core, core = choose_cores()
    (HERE / ".build").mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="security-", dir=HERE / ".build"))
    timed: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        key = make_key(data)
        benches = [
            Bench(name, stack.enter_context(started(name, server_core, data, key)), seconds, core) for name in names
        ]
        for bench in benches:
            bench.warm_up(warm)
        for number in range(pairs):
            for bench in benches:
                if bench.name == "ottla" or number % KAFKA_EVERY == 0:
                    bench.compare(number)
        for number in range(rounds):
            for bench in benches if number % 2 else [*reversed(benches)]:
                for kind, words in COMING.items():
                    figures.add(words, bench.name, **bench.come_and_go(kind, 2 * seconds))
        for bench in benches:
            for mechanism in TIMED if bench.name == "ottla" else ():
                known, unknown = bench.timing(mechanism, exchanges)
                words = "reached" if abs(unknown / known - 1) < 0.05 else "missed"
                timed.append(
                    f"{words}: {mechanism}, a wrong password of a user that there is refused after {known:,.0f} µs, "
                    f"of one that there is not after {unknown:,.0f} µs, the medians of {exchanges:,} each (within 5 %)"
                )
    told(benches, figures, timed, write)


def told(benches: Sequence[Bench], figures: Figures, timed: Sequence[str], write: Path | None) -> None:
    """Print what was found, and rewrite the sections of a file."""
    for bench in benches:
        for pair in bench.pairs:
            for without, secured in pair.found:
                ratio = secured / without
                figures.add(pair.load, bench.name, **({"grown": ratio - 1} if pair.costs else {"kept": ratio}))
    if write is not None:
        figures.save("security")
    about = describe(choose_cores()[0] is not None, beside.versions([bench.name for bench in benches]))
    about["rules"] = f"{RULES}, authorizer on, users by PLAIN on SASL_PLAINTEXT; TLS 1.3, ECDSA P-256"
    coming = Figures()
    coming.found = {key: value for key, value in figures.found.items() if key[0] in COMING.values()}
    skipped = [f"skipped: {server}: {reason}" for server, reason in figures.missing.items()]
    for heading, table, remarks in (
        ("Security", compared(benches), skipped),
        ("Handshakes and logins", coming.table(COLUMNS, ("per second", "CPU µs")), timed),
    ):
        print("\n".join([plain(table), "", *remarks, ""]))
        if write is not None:
            rewrite_section(write, section(heading, about, table, remarks))


if __name__ == "__main__":
    main()
