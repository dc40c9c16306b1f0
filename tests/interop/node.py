"""Shared by the JavaScript suites: their packages, and how they are run."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.interop.programs import scenarios
from tests.interop.suite import NotAvailable, Place, Result, Run, checked, needs


def node_version() -> str:
    return f"node {checked(['node', '--version']).strip().lstrip('v')}"


def packages(place: Place, env: Mapping[str, str] | None = None) -> None:
    """Install what the suite's package-lock.json names into the cache; nothing to do if that was done before.

    Raises:
        NotAvailable: npm could not fetch or build it.
    """
    files = [place.source / "package.json", place.source / "package-lock.json"]
    mark = zlib.crc32(b"".join(file.read_bytes() for file in files) + node_version().encode())
    done = place.cache / f"installed-{mark:08x}"
    if done.exists():
        return
    for file in files:
        shutil.copy(file, place.cache)
    environment = {"npm_config_update_notifier": "false", **(env or {})}
    # Node's own headers lie beside it where it was installed by a package; else npm fetches them.
    prefix = Path(shutil.which("node") or "/usr/bin/node").resolve().parent.parent
    if (prefix / "include" / "node" / "node.h").exists():
        environment["npm_config_nodedir"] = str(prefix)
    checked(["npm", "ci", "--no-audit", "--no-fund"], cwd=place.cache, env=environment)
    for old in place.cache.glob("installed-*"):
        old.unlink()
    done.touch()


def package_version(place: Place, name: str) -> str:
    code = f"process.stdout.write(require('{name}/package.json').version)"
    return checked(["node", "-e", code], cwd=place.cache).strip()


def run_node(run: Run) -> Iterator[Result]:
    """The suite's main.js with its packages, against the run's broker. ``--option only=NAME,NAME`` names tests."""
    command = ["node", str(run.place.source / "main.js"), *filter(None, run.options.get("only", "").split(","))]
    return scenarios(run, command, env={"NODE_PATH": str(run.place.cache / "node_modules")}, timeout_s=400)


def needs_node() -> str:
    """ "" if there is a Node.js that is new enough, else the reason."""
    if absent := needs("node", "npm")():
        return absent
    try:
        major = int(node_version().split()[1].split(".")[0])
    except (NotAvailable, ValueError, IndexError) as error:
        return f"node: {error}"
    return "" if major >= 18 else f"node {major} is too old: 18 is needed"
