"""What is installed for the images, the tests and the checks is pinned, and fits what pyproject.toml asks for."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.sources import ROOT

LOCKS = ROOT / "locks"
WANTED: dict[str, list[str]] = runpy.run_path(str(LOCKS / "make.py"))["wanted"]()
PLACES = [
    {"python_version": python, "python_full_version": f"{python}.1", "platform_machine": machine}
    for python in ("3.11", "3.12", "3.13")
    for machine in ("x86_64", "aarch64")
]
"""Where the images and CI may run."""


def pins(lock: str) -> dict[Requirement, list[str]]:
    """What a lock pins, with the hashes of its files.

    Raises:
        AssertionError: it says anything else, such as where to take files from.
    """
    text = (LOCKS / f"{lock}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    found = {}
    for line in lines:
        requirement, *hashes = line.split(" --hash=")
        found[Requirement(requirement)] = [one.strip() for one in hashes]
    return found


def missing(wanted: list[str], pinned: dict[Requirement, list[str]]) -> list[tuple[str, str]]:
    """Requirements that no pin fulfils, and where."""
    found = []
    for place in PLACES:
        here: Any = {**default_environment(), "sys_platform": "linux", **place}
        there = {
            canonicalize_name(pin.name): next(iter(pin.specifier)).version
            for pin in pinned
            if pin.marker is None or pin.marker.evaluate(here)
        }
        for requirement in map(Requirement, wanted):
            if requirement.marker is None or requirement.marker.evaluate(here):
                version = there.get(canonicalize_name(requirement.name), "")
                if not version or version not in requirement.specifier:
                    found.append((str(requirement), place["python_version"]))
    return found


def test_there_is_a_lock_for_each_purpose() -> None:
    assert {path.stem for path in LOCKS.glob("*.txt")} == set(WANTED)


@pytest.mark.parametrize("lock", WANTED)
def test_a_lock_fits_what_is_asked_for(lock: str) -> None:
    assert missing(WANTED[lock], pins(lock)) == [], "say `make lock`"


def test_what_does_not_fit_is_found() -> None:
    pinned = {Requirement("One==1.0"): ["x"], Requirement("two==2.0 ; python_version < '3.12'"): ["x"]}
    assert missing(["one>=1"], pinned) == []
    assert missing(["one>=2"], pinned) == [("one>=2", place["python_version"]) for place in PLACES]
    assert {python for _, python in missing(["two"], pinned)} == {"3.12", "3.13"}
    assert missing(["three; sys_platform == 'win32'"], pinned) == []


@pytest.mark.parametrize("lock", WANTED)
def test_every_pin_is_of_one_version_and_its_files(lock: str) -> None:
    for pin, hashes in pins(lock).items():
        assert [one.operator for one in pin.specifier] == ["=="], pin
        assert pin.url is None
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in hashes), pin


@pytest.mark.parametrize(("name", "count"), [("Dockerfile", 4), ("Dockerfile.pipeline", 5)])
def test_images_install_nothing_without_a_hash(name: str, count: int) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    installs = [line for line in text.splitlines() if re.search(r"\bpip\b.* (install|wheel)\b", line)]
    assert len(installs) == count
    for line in installs:
        assert re.search(r"--require-hashes -r locks/\w+\.txt", line) or (" --no-deps " in line), line
        assert " wheel " not in line or " --no-build-isolation " in line, line


VERDICT = runpy.run_path(str(LOCKS / "audit.py"))["verdict"]
GOOD = {"name": "good", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "unknown", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("dependencies", "code", "said"),
    [
        ([GOOD], 0, ["1 packages were compared with the advisories"]),
        ([GOOD, BAD], 1, ["vulnerable: bad 2 (image.txt): CVE-1, mended in 3", "2 packages were compared"]),
        ([BAD, UNKNOWN], 1, ["vulnerable: bad 2", "1 packages", "skipped: the advisories of 1 could not be asked for"]),
    ],
)
def test_an_audit_finds_what_is_known(dependencies: list[dict[str, Any]], code: int, said: list[str]) -> None:
    lines, got = VERDICT({"image": {"dependencies": dependencies}})
    assert got == code
    assert [line.startswith(begin) for line, begin in zip(lines, said, strict=True)] == [True] * len(said)


def test_an_audit_that_reaches_nobody_says_so() -> None:
    lines, code = VERDICT({"image": {"failure": "no route"}, "test": {"dependencies": [UNKNOWN]}})
    assert code == 0
    assert lines[-1] == "skipped: the advisories of 2 could not be asked for, image for one: no route"
