"""Suites in Go: fetching modules through the module proxy, building our programs, running them."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.interop.programs import go_test, scenarios
from tests.interop.suite import QUICK_CONSUMER_GROUPS, NotAvailable, Place, Result, Run, Suite, checked, needs

NEWEST_OF_GO_MOD = re.compile(r"^\s*(?:require\s+)?(\S+) (v\S+)", re.MULTILINE)
BUILD = {"GOFLAGS": "-mod=readonly -buildvcs=false", "CGO_ENABLED": "0"}
_TEST = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\)", re.MULTILINE)


def go_version() -> str:
    """``go1.26.0`` without the word go."""
    return checked(["go", "env", "GOVERSION"]).strip().removeprefix("go")


def required(source: Path, module: str) -> str:
    """The version of a module that a folder's go.mod asks for.

    Raises:
        NotAvailable: it asks for none.
    """
    found = dict(NEWEST_OF_GO_MOD.findall((source / "go.mod").read_text("utf-8")))
    if module not in found:
        raise NotAvailable(f"{source.name}/go.mod does not name {module}")
    return str(found[module])


def build(place: Place) -> None:
    """Build the program of a suite's folder into its cache; quick when nothing changed, as Go keeps what it built."""
    checked(["go", "build", "-o", str(program(place)), "."], cwd=place.source, env=BUILD)


def program(place: Place) -> Path:
    """The built program."""
    return place.cache / place.source.name


def run_scenarios(run: Run) -> Iterator[Result]:
    """Run the program. ``--option only=REGEXP`` chooses scenarios."""
    command = [str(program(run.place)), "-bootstrap", run.bootstrap, "-only", run.options.get("only", "")]
    return scenarios(run, command, timeout_s=float(run.options.get("timeout", 240)))


def client_suite(title: str, modules: Mapping[str, str]) -> Suite:
    """The suite of a client: the program in its folder plays the scenarios.

    Args:
        modules: what is tried, by the name that the page has for it.
    """

    def versions(place: Place) -> str:
        numbers = {word: required(place.source, module).removeprefix("v") for word, module in modules.items()}
        return ", ".join([*(f"{word} {number}" for word, number in numbers.items()), f"Go {go_version()}"])

    return Suite(
        title=title,
        language="Go",
        missing=needs("go"),
        prepare=build,
        versions=versions,
        settings={
            "auto.create.topics.enable": False,
            "group.min.session.timeout.ms": 500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            **QUICK_CONSUMER_GROUPS,
        },
        run=run_scenarios,
    )


def built_tests(place: Place, name: str, source: Path, *arguments: str, env: Mapping[str, str]) -> Path:
    """The test binary of a package, built once in a place for each name."""
    binary = place.cache / f"{name}.test"
    if not binary.exists():
        built = binary.with_suffix(".building")
        checked(["go", "test", "-c", "-o", str(built), *arguments], cwd=source, env=env)
        built.replace(binary)
    return binary


def run_tests(
    binary: Path, package: str, folder: Path, env: Mapping[str, str], chosen: str, *arguments: str, timeout_s: int = 540
) -> Iterator[Result]:
    """Run a test binary; ``chosen`` is the regular expression of the tests."""
    command = ["go", "tool", "test2json", "-t", "-p", package, str(binary), "-test.v=test2json"]
    command += [f"-test.run={chosen}", *arguments, f"-test.timeout={timeout_s}s"]
    yield from go_test(command, cwd=folder, env=env, timeout_s=timeout_s + 30)


def names_of_tests(folder: Path, pattern: str = "*_test.go") -> list[str]:
    """The names of the top-level tests in a folder's files."""
    return sorted(name for path in folder.glob(pattern) for name in _TEST.findall(path.read_text("utf-8")))


def copied_module(place: Place, module: str, version: str) -> Path:
    """A writable copy of a module in the suite's cache, fetched and checked by Go.

    Raises:
        NotAvailable: it could not be fetched.
    """
    target = place.cache / f"{module.rpartition('/')[2]}-{version}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=place.cache) as scratch:
            kept = {"GOFLAGS": "-mod=mod", "GO111MODULE": "on"}
            told = checked(["go", "mod", "download", "-json", f"{module}@{version}"], cwd=Path(scratch), env=kept)
            copy = Path(scratch) / "copy"
            checked(["cp", "-r", json.loads(told[told.index("{") :])["Dir"], str(copy)])
            checked(["chmod", "-R", "u+w", str(copy)])
            os.replace(copy, target)
    return target
