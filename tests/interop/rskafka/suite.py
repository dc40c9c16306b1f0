"""rskafka's integration tests out of its crate. Some of them read and write with librdkafka besides.

Building them takes a C compiler and, the first time, minutes. ``--option only=TEXT`` chooses tests whose name has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.interop.crates import built_tests, copied_crate, rust_version, toolchain
from tests.interop.programs import rust_tests
from tests.interop.secured import secured
from tests.interop.suite import Place, Result, Run, Suite, checked, needs

VERSION = "0.6.0"
PROGRAMS = ("client", "consumer", "produce_consume", "producer")
NOT_HERE = ("socks5", "tls", "java")
"""Tests that return at once unless a proxy or the Java client is announced; the authors leave that of TLS out."""
PLAIN_USER = {"admin": "admin-secret"}

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
    with secured(PLAIN_USER) as safe:
        told["KAFKA_SASL_CONNECT"] = safe.told["SECURED_OPEN"]
        for name, program in built_tests(source, run.place.cache / "target", PROGRAMS).items():
            command = [str(program), "--test-threads=4", *(f"--skip={each}" for each in NOT_HERE)]
            if only := run.options.get("only"):
                command.append(only)
            for result in safe.judged(rust_tests(command, cwd=source, env=told, timeout_s=120)):
                yield replace(result, test=f"{name}::{result.test}")


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
