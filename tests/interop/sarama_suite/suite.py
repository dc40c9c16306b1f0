"""sarama's functional tests, fetched with the Go module proxy, in the version that tests/interop/sarama asks for.

They want five brokers behind toxiproxy, which is fetched likewise: here its five doors lead to one broker, or to
several nodes, and their topics have one replica instead of three. Tests that run Kafka's tools in a container skip
themselves. ``--option run=REGEXP`` chooses tests, ``--option sample=SEED`` a third of them.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.differential.real_kafka import free_port
from tests.interop.go_programs import (
    built_tests,
    copied_module,
    go_version,
    names_of_tests,
    required,
    run_tests,
)
from tests.interop.suite import NotAvailable, Place, Result, Run, Suite, checked, needs, sampled
from tests.support.rules import WITH_RULES

MODULE = "github.com/IBM/sarama"
TOXIPROXY = "github.com/Shopify/toxiproxy/v2"
TOXIPROXY_VERSION = "v2.5.0"
TAKEN_FOR = "4.3.0"
DOORS = range(29091, 29096)
"""Ports at which the tests expect toxiproxy's proxies; the first is the broker's own address."""
DOOR = f"127.0.0.1:{DOORS[0]}"
SAMPLED = 3
TIMEOUT_S = 600

SEVERAL = "wants several brokers"
STOPS_A_CONTAINER = "stops a broker that runs in a container"
KNOWN = {
    "TestFuncAdminListConsumerGroupOffsets": STOPS_A_CONTAINER,
    "TestFuncTxnProduceWithBrokerFailure": STOPS_A_CONTAINER,
    "TestFuncIdempotentBufferedSequence": "reads the log of a broker that runs in a container",
    "TestConsumerFetchFollowerFailover": SEVERAL,
    "TestFuncAdminAlterPartitionReassignments": SEVERAL,
    "TestFuncAdminDescribeLogDirs": SEVERAL,
    "TestReadOnlyAndAllCommittedMessages": "its authors leave it out, as it fails now and then",
    "TestJava*": "runs Kafka's tools in a container",
    "TestFuncJava*": "runs Kafka's tools in a container",
}


def source(place: Place) -> Path:
    return place.cache / "changed"


def prepare(place: Place) -> None:
    version = required(place.source.parent / "sarama", MODULE)
    module = copied_module(place, MODULE, version)
    proxy = {"GOBIN": str(place.cache), "GOFLAGS": "-mod=mod -buildvcs=false"}
    if not (place.cache / "server").exists():
        checked(["go", "install", f"{TOXIPROXY}/cmd/server@{TOXIPROXY_VERSION}"], cwd=place.cache, env=proxy)
    if binary(place).exists():
        return
    shutil.rmtree(source(place), ignore_errors=True)
    shutil.copytree(module, source(place))
    path = source(place) / "functional_test.go"
    path.write_text(re.sub(r"(ReplicationFactor:\s*)3", r"\g<1>1", path.read_text("utf-8")), "utf-8")
    built_tests(place, name(place), source(place), "-tags", "functional", ".", env=proxy)


def name(place: Place) -> str:
    return f"sarama-{required(place.source.parent / 'sarama', MODULE)}"


def binary(place: Place) -> Path:
    return place.cache / f"{name(place)}.test"


def versions(place: Place) -> str:
    version = required(place.source.parent / "sarama", MODULE)
    return f"sarama {version.removeprefix('v')}, toxiproxy {TOXIPROXY_VERSION.removeprefix('v')}, Go {go_version()}"


@contextlib.contextmanager
def toxiproxy(run: Run) -> Iterator[str]:
    """Toxiproxy with a proxy for each door; its address."""
    port = free_port()
    command = [str(run.place.cache / "server"), "-host", "127.0.0.1", "-port", str(port)]
    nodes = run.bootstrap.split(",")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            rows = [
                {
                    "name": f"kafka{number}",
                    "listen": f"127.0.0.1:{door}",
                    "upstream": nodes[(number - 1) % len(nodes)],
                    "enabled": True,
                }
                for number, door in enumerate(DOORS, 1)
            ]
            _populate(address, rows)
            yield address
        finally:
            process.kill()


def _populate(address: str, rows: list[dict[str, object]]) -> None:
    asked = urllib.request.Request(f"{address}/populate", json.dumps(rows).encode(), method="POST")
    for attempt in range(100):
        try:
            with urllib.request.urlopen(asked, timeout=10):
                return
        except OSError:
            if attempt == 99:
                raise NotAvailable(f"toxiproxy does not answer at {address}") from None
            time.sleep(0.1)


def run(run: Run) -> Iterator[Result]:
    wanted = names_of_tests(source(run.place), "functional_*_test.go")  # the others need no broker
    if seed := run.options.get("sample"):
        wanted = sampled(wanted, SAMPLED, seed, run.say)
    chosen = run.options.get("run") or f"^({'|'.join(wanted)})$"
    with toxiproxy(run) as address:
        told = {"TOXIPROXY_ADDR": address, "KAFKA_VERSION": TAKEN_FOR}
        tests, folder = binary(run.place), source(run.place)
        yield from run_tests(tests, "sarama", folder, told, chosen, timeout_s=TIMEOUT_S)


SUITE = Suite(
    title="sarama's functional tests, with one replica for three",
    language="Go",
    missing=needs("go", ports=DOORS),
    prepare=prepare,
    versions=versions,
    settings={
        "advertised.listeners": f"PLAINTEXT://{DOOR}",
        "auto.create.topics.enable": False,
        **WITH_RULES,
    },
    run=run,
    known=KNOWN,
    foreign=True,
    sampled=True,
)
