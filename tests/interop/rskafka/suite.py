"""rskafka's integration tests out of its crate. Some of them read and write with librdkafka besides.

Building them takes a C compiler and, the first time, minutes. ``--option only=TEXT`` chooses tests whose name has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.interop.crates import built_tests, copied_crate, rust_version, toolchain
from tests.interop.programs import rust_tests
from tests.interop.suite import Place, Result, Run, Suite, checked, needs

VERSION = "0.6.0"
PROGRAMS = ("client", "consumer", "produce_consume", "producer")
NOT_HERE = ("sasl", "socks5", "tls", "java")
"""Tests that return at once unless a SASL or TLS listener, a proxy or the Java client is announced to them."""


OLD_RSASL = 'name = "rsasl"\nversion = "2.2.0"'
"""Of its lock file; Rust 1.95 does not compile it any more."""


def prepare(place: Place) -> None:
    source = copied_crate(place, "rskafka", VERSION)
    if OLD_RSASL in (source / "Cargo.lock").read_text("utf-8"):
        checked(["cargo", "update", "rsasl"], cwd=source, env={"RUSTUP_TOOLCHAIN": toolchain()})
    built_tests(source, place.cache / "target", PROGRAMS)


def versions(place: Place) -> str:
    return f"rskafka {VERSION}, Rust {rust_version()}"


def run(run: Run) -> Iterator[Result]:
    source = copied_crate(run.place, "rskafka", VERSION)
    told = {"TEST_INTEGRATION": "1", "TEST_BROKER_IMPL": "kafka", "KAFKA_CONNECT": run.bootstrap}
    for name, program in built_tests(source, run.place.cache / "target", PROGRAMS).items():
        command = [str(program), "--test-threads=4", *(f"--skip={each}" for each in NOT_HERE)]
        if only := run.options.get("only"):
            command.append(only)
        for result in rust_tests(command, cwd=source, env=told, timeout_s=120):
            yield Result(f"{name}::{result.test}", result.outcome, result.reason, result.seconds)


SUITE = Suite(
    title="rskafka's integration tests",
    language="Rust",
    missing=needs("cargo", "cc"),
    prepare=prepare,
    versions=versions,
    settings={"auto.create.topics.enable": False},
    run=run,
    foreign=True,
)
