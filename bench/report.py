"""The common part of the benchmarks' reports: where and how it was measured, and the file of results."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def rewrite_section(path: Path, section: str) -> None:
    """Put the section in the place of the one with its heading, or at the file's end."""
    text = path.read_text() if path.exists() else "# Results\n"
    heading = section.split("\n", 1)[0]
    pattern = re.compile(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    if pattern.search(text):
        text = pattern.sub(lambda _: section + "\n", text, count=1)
    else:
        text = text.rstrip("\n") + "\n\n" + section
    path.write_text(text.rstrip("\n") + "\n")


def describe(pinned: bool, others: str = "") -> dict[str, str]:
    """The machine, the versions, also those of other servers, and the command."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    cores = f"{os.cpu_count()} cores, server and generator {'each on one' if pinned else 'on any'}"
    names = []
    for distribution in ("ottla", "uvloop", "confluent-kafka"):
        with contextlib.suppress(PackageNotFoundError):
            names.append(f"{distribution} {version(distribution)}")
    command = [f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{model[1] if model else platform.machine()}, {cores}, Linux {platform.release()}",
        "versions": ", ".join([f"Python {platform.python_version()}", *names, *([others] if others else [])]),
        "command": f"`{shlex.join(command)}`",
    }
