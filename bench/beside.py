"""The other servers that Ottla is measured beside."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
OTHERS = ("kafka", "kfake")


def versions(names: Iterable[str]) -> str:
    """Which releases of the others were measured; "" if none was."""
    said = []
    if "kafka" in names:
        from kafka_server import version

        java = subprocess.run(["java", "--version"], capture_output=True, text=True).stdout.split("\n", 1)[0]
        said.append(f"Apache Kafka {version()} on {java}")
    if "kfake" in names:
        required = (HERE / "kfake" / "go.mod").read_text("utf-8")
        of_kfake = required.split("/pkg/kfake v", 1)[1].split()[0]
        go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()
        said.append(f"kfake {of_kfake} on {go}")
    return ", ".join(said)
