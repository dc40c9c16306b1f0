"""A process that holds a real Apache Kafka broker, with a controller in the same process, for the benchmarks.

Its settings are Kafka's own but for the replicas (there is one node) and what every server of the benchmarks is given;
the JVM's options are those of Kafka's start script. Prints ``host:port pid``, the process id of the JVM, once the
broker answers for groups, and runs until its stdin ends or it is ended. Needs Java and, the first time, Maven.

    kafka_server.py [DIRECTORY [SETTING=VALUE | PROTOCOL://HOST:PORT …]]

The latter are listeners, beside the one that asks nobody who he is.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.differential.real_kafka import (  # noqa: E402 - the jars are fetched there
    CLUSTER_ID,
    ONE_NODE,
    NoJava,
    free_port,
    jars,
    version,
)

__all__ = ["NoJava", "answers", "formatted", "jars", "version", "wait_for"]

JVM = [
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]
# One node of everything; how many threads is left to Kafka.
SETTINGS = {key: value for key, value in ONE_NODE.items() if not key.startswith("num.")} | {
    "num.partitions": 4,
    "group.initial.rebalance.delay.ms": 1000,
    # Members of the consumer protocol do not expire either while another server has its turn.
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "group.consumer.session.timeout.ms": 1_800_000,
}
READY_SECONDS = 120.0
STEP_SECONDS = 0.005
API_VERSIONS, FIND_COORDINATOR = 18, 10


def formatted(directory: Path, more: Sequence[str] = ()) -> tuple[list[str], int]:
    """Prepare a directory for a broker; gives the command that starts one there, and its port.

    ``more`` are settings, and listeners.
    """
    port, controller = free_port(), free_port()
    told = ",".join([f"PLAINTEXT://127.0.0.1:{port}", *(each for each in more if "://" in each)])
    settings = SETTINGS | {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{told},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": told,
        "log.dirs": directory / "data",
    }
    properties = directory / "server.properties"
    lines = [f"{key}={value}" for key, value in settings.items()] + [each for each in more if "://" not in each]
    properties.write_text("\n".join(lines), "utf-8")
    java = ["java", *JVM, "-cp", f"{jars()}/*"]
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
    return [*java, "kafka.Kafka", str(properties)], port


def ask(port: int, api_key: int, api_version: int, body: bytes) -> bytes:
    """One request on a connection of its own, with a version 1 header; the body of the answer.

    Raises:
        OSError: nobody listens, or the connection was closed.
    """
    frame = struct.pack(">hhih", api_key, api_version, 7, -1) + body
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            if not (more := connection.recv(65536)):
                raise ConnectionResetError("closed")
            answer += more
    return answer[8:]


def answers(port: int) -> bool:
    """Whether a broker answers which versions it has."""
    with contextlib.suppress(OSError):
        return ask(port, API_VERSIONS, 0, b"")[:2] == b"\0\0"
    return False


def coordinates(port: int) -> bool:
    """Whether the broker coordinates groups: the first to ask has it make the topic for their offsets."""
    with contextlib.suppress(OSError):
        group = b"bench-group-0"
        return ask(port, FIND_COORDINATOR, 0, struct.pack(">h", len(group)) + group)[:2] == b"\0\0"
    return False


def wait_for(process: subprocess.Popen[bytes], port: int, ready: bool = True) -> None:
    """Until the broker answers and, if it is to be ready for load, coordinates groups.

    Raises:
        RuntimeError: it ended, or was not ready in time.
    """
    deadline = time.monotonic() + READY_SECONDS
    for good in (answers, coordinates) if ready else (answers,):
        while not good(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Kafka did not start")
            time.sleep(STEP_SECONDS)


def main() -> None:
    """Start a broker, say where it is, and wait."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    directory = Path(tempfile.mkdtemp(prefix="kafka-", dir=sys.argv[1] if len(sys.argv) > 1 else None))
    process = None
    try:
        command, port = formatted(directory, sys.argv[2:])
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        wait_for(process, port)
        print(f"127.0.0.1:{port} {process.pid}", flush=True)
        sys.stdin.read()
    finally:
        if process is not None:
            process.kill()  # nothing of it is kept
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
