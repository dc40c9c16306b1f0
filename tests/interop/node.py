"""Shared by the JavaScript suites: their packages, and a broker that is restarted when a program asks."""

from __future__ import annotations

import os
import shutil
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.programs import json_lines
from tests.interop.suite import NotAvailable, Place, Result, Run, checked

_NOTICED_AFTER_S = 0.05


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


def run_node(run: Run, *, timeout_s: float = 400) -> Iterator[Result]:
    """The suite's main.js with its packages, against the run's broker. ``--option only=NAME,NAME`` names tests."""
    command = ["node", str(run.place.source / "main.js"), *filter(None, run.options.get("only", "").split(","))]
    env = {"BOOTSTRAP": run.bootstrap, "NODE_PATH": str(run.place.cache / "node_modules")}
    with restarts(run) as directory:
        yield from json_lines(command, env={**env, "RESTARTS": directory}, timeout_s=timeout_s)


@contextmanager
def restarts(run: Run) -> Iterator[str]:
    """A directory in which a program asks for a restart by a file ``wanted-N``; ``done-N`` answers, with what went
    wrong as its text. "" if the broker was given from outside.
    """
    if run.broker is None:
        yield ""
        return
    directory = run.scratch / "restarts"
    directory.mkdir(exist_ok=True)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(run, directory, over))
    watcher.start()
    try:
        yield str(directory)
    finally:
        over.set()
        watcher.join()


def _watch(run: Run, directory: Path, over: threading.Event) -> None:
    assert run.broker is not None
    while not over.wait(_NOTICED_AFTER_S):
        for wanted in directory.glob("wanted-*"):
            wrong = ""
            if "Traceback" in (log := run.broker.log_text()):
                wrong = log[log.index("Traceback") :][:3000]
            run.broker.kill()
            try:
                run.broker.restart()
            except RuntimeError as error:
                wrong = str(error)
            done = directory / wanted.name.replace("wanted", "done")
            (half := done.with_suffix(".half")).write_text(wrong, "utf-8")
            wanted.unlink()
            os.replace(half, done)


def needs_node() -> str:
    """ "" if there is a Node.js that is new enough, else the reason."""
    absent = [program for program in ("node", "npm") if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    try:
        major = int(node_version().split()[1].split(".")[0])
    except (NotAvailable, ValueError, IndexError) as error:
        return f"node: {error}"
    return "" if major >= 18 else f"node {major} is too old: 18 is needed"
