"""The churn run: the newest Java clients come, go and crash for minutes; what they log is held against Apache Kafka.

``python -m tests.interop.java.churn --minutes 10``; with ``--protocol consumer`` their groups are of that protocol. The
same seeded run is made against Ottla and, at the same time, against a real Apache Kafka. Lines of WARN and ERROR are
reduced to their shape (no ids, numbers, names); Ottla fails if the clients logged a shape that they did not log with
Kafka. Whether a rare line shows up is also a matter of timing, so shapes that only Ottla has are looked for in further
runs against Kafka (``--tries``) before they count. At the end of a run each group must have read every record of its
topic.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.testing import BrokerProcess
from tests.differential.real_kafka import NoJava, RealKafka
from tests.interop.java.suite import SUITE, class_path
from tests.interop.jvm import JAVA
from tests.interop.run import place_of
from tests.interop.suite import NotAvailable

SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "offsets.topic.num.partitions": 8,
    "transaction.state.log.num.partitions": 8,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
# "[thread] WARN logger - message", as slf4j-simple writes it.
_LINE = re.compile(r"^\[.*?\] (?P<level>WARN|ERROR) (?P<logger>[\w.$]+) - (?P<message>.*)$")
_SHAPES = [
    # Behind the error comes the broker's own text of it.
    (r"(ConsumerGroupHeartbeatRequest failed (?:due to|because of) [^:]+): .*", r"\1"),
    (r"OffsetAndMetadata\{.*?\}", "OffsetAndMetadata"),
    (r"Generation\{.*?\}", "Generation{…}"),
    (r"\b(?:clientId|groupId|transactionalId|groupInstanceId)=[^,\]\s]+", lambda found: found[0].split("=")[0] + "=…"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])", "UUID"),
    (r"\b(?:churn|fixed|reader|patient|plain|group|copy|tx|wanderer|copier)(?:-[\w.*]+)+", "NAME"),
    (r"\b(?:churn-temp|reader|consumer|producer|fixed|patient|plain)-\S*UUID", "NAME"),
    (r"-?\b\d+(?:\.\d+)*\b", "N"),
    (r"NAME-(?:N|UUID)", "NAME"),
]


def shape(message: str) -> str:
    """What is left of a message when ids, numbers and names are taken out, and lists are cut to one item."""
    for pattern, by in _SHAPES:
        message = re.sub(pattern, by, message)
    while (shorter := re.sub(r"(\b[^\s,\[\]{}()]+(?:=\S+?|:N)?), \1(?=[,\]})])", r"\1", message)) != message:
        message = shorter
    return message


def shapes(files: list[Path]) -> tuple[Counter[str], dict[str, str]]:
    """How often each shape is in the logs, and a line for each."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for file in files:
        for line in file.read_text("utf-8", errors="replace").splitlines():
            if (found := _LINE.match(line)) and not found["logger"].startswith("ottla"):
                key = f"{found['level']} {found['logger'].rpartition('.')[2]}: {shape(found['message'])}"
                counts[key] += 1
                examples.setdefault(key, line)
    return counts, examples


def churn(bootstrap: str, directory: Path, seconds: float, seed: int, protocol: str, cache: Path) -> list[Path]:
    """Run the clients against a broker and give their logs.

    Raises:
        RuntimeError: the program did not end well.
    """
    directory.mkdir(parents=True)
    log = directory / "clients.log"
    command = [*JAVA, f"-Dorg.slf4j.simpleLogger.logFile={log}", "-cp", class_path(cache), "ottla.interop.Churn"]
    command += [bootstrap, str(directory), str(int(seconds)), str(seed), protocol]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 180, check=False)
    if done.returncode:
        raise RuntimeError(
            f"the churn program ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    print(f"{directory.name}: {done.stdout.strip()}", flush=True)
    return sorted(directory.glob("*.log"))


def on_ottla(directory: Path, seconds: float, seed: int, protocol: str, cache: Path) -> list[Path]:
    with BrokerProcess(directory / "data", settings=SETTINGS) as broker:
        files = churn(broker.bootstrap_servers, directory / "ottla", seconds, seed, protocol, cache)
        (directory / "ottla.broker.txt").write_text(broker.log_text(), "utf-8")
        return files


def on_kafka(directory: Path, name: str, seconds: float, seed: int, protocol: str, cache: Path) -> list[Path]:
    with RealKafka(SETTINGS) as kafka:
        return churn(f"127.0.0.1:{kafka.port}", directory / name, seconds, seed, protocol, cache)


def compare(directory: Path, minutes: float, seed: int, tries: int, protocol: str) -> int:
    """Make the runs, print what was found, and give the count of shapes that only Ottla has."""
    place = place_of("java")
    SUITE.prepare(place)
    print(
        f"{SUITE.versions(place)}; {minutes:g} minutes, {protocol} groups, seed {seed}, logs in {directory}", flush=True
    )
    with ThreadPoolExecutor(2) as pool:
        ours = pool.submit(on_ottla, directory, minutes * 60, seed, protocol, place.cache)
        theirs = pool.submit(on_kafka, directory, "kafka", minutes * 60, seed, protocol, place.cache)
        counts, examples = shapes(ours.result())
        known, _ = shapes(theirs.result())
    for attempt in range(1, tries + 1):
        if not (strange := set(counts) - set(known)):
            break
        print(f"{len(strange)} shapes not seen with Kafka; another run against it", flush=True)
        known += shapes(on_kafka(directory, f"kafka-{attempt}", minutes * 60, seed + attempt, protocol, place.cache))[0]
    print(f"\n{'Ottla':>7} {'Kafka':>7}  shape")
    for key in sorted(set(counts) | set(known)):
        print(f"{counts[key]:7} {known[key]:7}  {key[:260]}")
    strange = set(counts) - set(known)
    for key in sorted(strange):
        print(f"\nonly with Ottla: {key}\n    {examples[key]}")
    tracebacks = (directory / "ottla.broker.txt").read_text("utf-8").count("Traceback")
    ours_said, theirs_said = (f"{sum(each.values())} lines of {len(each)} shapes" for each in (counts, known))
    print(f"\n{ours_said} with Ottla, {theirs_said} with Kafka; {len(strange)} only with Ottla; "
          f"{tracebacks} tracebacks in its log")  # fmt: skip
    return len(strange) + tracebacks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="of the groups")
    parser.add_argument("--tries", type=int, default=2, help="further runs against Kafka for what it did not log")
    parser.add_argument("--logs", type=Path, help="a directory that keeps the logs; it must not exist")
    given = parser.parse_args()
    try:
        if given.logs:
            given.logs.mkdir(parents=True)
            return int(compare(given.logs.resolve(), given.minutes, given.seed, given.tries, given.protocol) > 0)
        with tempfile.TemporaryDirectory(prefix="ottla-churn-") as directory:
            return int(compare(Path(directory), given.minutes, given.seed, given.tries, given.protocol) > 0)
    except (NotAvailable, NoJava) as missing:
        print(f"skipped: {missing}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
