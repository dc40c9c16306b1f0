"""Seeded requests against a broker of its own, over all APIs and versions, and what a broker must hold to meanwhile.

``python -m tests.hostile.fuzz --seed N --minutes M``. Whatever is sent: each request is answered within a second or its
connection closed, unless it has a reason to wait; answers can be read and their errors are known; nothing is logged as
a fault of the broker; memory comes back; an honest group's heartbeats are answered; the broker stops when it is asked
to and starts again on what was written. ``--case K`` plays one case alone and prints what it sends.

Cases are numbered through; each round has a broker of its own with other settings, and a million numbers.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.hostile.fuzz_case import ROUND, STANDING, Case, has_quotas
from tests.hostile.fuzz_guest import LATE_S, Fault, Guest, Machine, Stopwatch
from tests.hostile.fuzz_logins import LISTENER, MAY_READ, WITH_LOGINS
from tests.hostile.fuzz_requests import HONEST
from tests.hostile.logins import ARGUMENTS
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.rules import WITH_RULES

GUESTS = 6
"""Cases that are played at a time."""
GROWTH_BYTES = 8 << 20
"""How much more a quiet broker may have in use at the end of a round than it had after its first cases.

Caches that have a bound of their own fill so far: meters of client ids, verified producers, indexes of the logs.
"""
QUIET_S = 10.0
"""For how long what is to be forgotten is waited for: the longest is a session."""
PEAK_BYTES = 300 << 20
"""How much larger than idle it may be at any time."""
RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
TRUSTED = (HONEST, "house")
"""The client ids of those who are not guests."""
_FAULTS_SHOWN = 12
_BUG = re.compile(
    r"Traceback|request failed|cannot be answered|Exception in callback|never retrieved|\[error|\[critical"
)

_FRAME = re.compile(r"^│ /.*:\d+ in ")

QUICK: dict[str, Any] = {
    "fetch.max.wait.ms": 100,
    "group.min.session.timeout.ms": 50,
    "group.max.session.timeout.ms": 6_000,
    "transaction.max.timeout.ms": 60_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "transactional.id.expiration.ms": 1_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
    "producer.id.expiration.ms": 1_000,
    "ottla.recorder.memory.bytes": 1 << 20,
    "ottla.history.memory.bytes": 1 << 20,
    "ottla.timeline.memory.bytes": 1 << 20,
    "max.incremental.fetch.session.cache.slots": 100,
    "connections.max.idle.ms": 2_000,
    "log.retention.check.interval.ms": 1_000,
    "log.cleaner.backoff.ms": 500,
}
"""What is forgotten is forgotten soon, and what is kept up to a bound is full soon, so that memory can be held to."""
ROUNDS: list[dict[str, Any]] = [
    {**WITH_LOGINS, "ottla.durability": "os"},
    {"protocol.codec": "construct", "ottla.durability": "os"},
    {"log.segment.bytes": 1_048_576, **WITH_RULES},
    {"compression.type": "zstd", "log.message.timestamp.type": "LogAppendTime", "group.max.size": 3},
]
"""Settings by round, again from the first when there are more rounds. Quotas come from the cases themselves."""


def most_items(number: int) -> int:
    """How long an array of this case may be made: the interpreted codecs are for debugging, and take 5 us a field."""
    return 100 if "protocol.codec" in ROUNDS[number // ROUND % len(ROUNDS)] else 1000


def _entries(log: str) -> Iterator[str]:
    """The entries of a log that tell of a fault of the broker."""
    for text in re.split(r"^(?=\d{4}-\d\d-\d\dT)", log, flags=re.MULTILINE):
        if _BUG.search(text) and "could not be compacted" not in text:  # it was deleted meanwhile
            yield text


class Fuzzed(Victim):
    """A broker whose log is read while it runs, and that can be asked what it is at."""

    def __init__(self, data_dir: Path, settings: Mapping[str, Any]) -> None:
        asks = "sasl.enabled.mechanisms" in settings
        more: dict[str, Any] = {"listeners": (LISTENER,), "arguments": ARGUMENTS} if asks else {}
        super().__init__(data_dir, settings=settings, **more)
        self._told = data_dir.with_name("memory")
        self._reading = threading.Lock()
        self._read = 0
        self._bugs: list[str] = []

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("-m")
        command[at : at + 2] = [str(Path(__file__).with_name("fuzzed_broker.py")), str(self._told)]
        return command

    def used_bytes(self) -> int:
        """What it has in use, of all that it has taken from the system; cycles are collected first."""
        self._told.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        deadline = time.monotonic() + 20
        while not self._told.exists():
            if time.monotonic() > deadline or not self.is_running:
                raise Fault("it does not tell how much memory it uses")
            time.sleep(0.02)
        return int(self._told.read_text(encoding="ascii"))

    def where(self) -> str:
        """What its event loop is at."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.1)
        stack = re.findall(r"^  File .*/((?:broker|protocol)/.*)$", self.news(), re.MULTILINE)
        return "it is at " + (" > ".join(stack[-6:]) or "rest")

    def news(self) -> str:
        """What it has logged since the last time."""
        assert self._log is not None
        # Opened anew, as the broker writes where the file that it was given stands.
        with self._reading, open(f"/proc/self/fd/{self._log.fileno()}", encoding="utf-8", errors="replace") as log:
            log.seek(self._read)
            news = log.read()
            self._read = log.tell()
        self._bugs += _entries(news)
        return news

    def bugs(self) -> list[str]:
        """The entries since the last time that tell of a fault of the broker."""
        self.news()
        with self._reading:
            bugs, self._bugs = self._bugs, []
        return bugs

    def start(self, timeout_s: float = 30) -> Fuzzed:
        self._read = 0
        super().start(timeout_s)
        return self


@dataclass(slots=True)
class Told:
    """What came of it."""

    seed: int
    cases: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    longest_s: float = 0.0
    probe_s: float = 0.0
    growth_bytes: int = 0
    kept_bytes: int = 0
    peak_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def fault(self, number: int | None, text: str, sent: list[bytes] | None = None) -> None:
        """Keep a fault, with how to see it again."""
        kind = re.sub(r"\d+|'[^']*'", "", text)
        self.kinds[kind] += 1
        if self.kinds[kind] == 1 and len(self.faults) < _FAULTS_SHOWN:
            again = (
                "" if number is None else f"\n  again: python -m tests.hostile.fuzz --seed {self.seed} --case {number}"
            )
            last = "" if not sent else f"\n  last sent: {sent[-1][:200].hex()}"
            self.faults.append(f"{text}{again}{last}")
            print(f"FAULT {self.faults[-1]}", flush=True)

    def table(self) -> str:
        """Requests by API."""
        return "\n".join(f"  {name.lower():34}{count:9}" for name, count in sorted(self.counts.items()))

    def line(self) -> str:
        """All in one line."""
        requests = sum(self.counts.values())
        return (
            f"seed {self.seed}: {self.cases} cases, {requests} requests ({requests / max(self.seconds, 0.1):.0f}/s), "
            f"longest answer {self.longest_s * 1000:.0f} ms, longest honest heartbeat {self.probe_s * 1000:.0f} ms, "
            f"growth at most {self.growth_bytes / 2**20:.1f} MB in a round, kept for the next burst "
            f"{self.kept_bytes / 2**20:.0f} MB, peak {self.peak_bytes / 2**20:.0f} MB over idle, "
            f"{len(self.faults)} faults"
        )


class Round:
    """One broker under fire."""

    def __init__(self, victim: Fuzzed, told: Told, first: int) -> None:
        self.victim = victim
        self.told = told
        self.next_case = first
        self.end_case = first + ROUND
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.playing: set[str] = set()
        self.machine = Machine(victim.pid)

    def play(self, seconds: float, cases: int | None = None) -> None:
        """Cases from here on, on several threads, for so long or so many."""
        self.ended.clear()
        deadline = time.monotonic() + seconds
        if cases is not None:
            self.end_case = self.next_case + cases
        guests = [threading.Thread(target=self._guest, args=(deadline,)) for _ in range(GUESTS)]
        others = [threading.Thread(target=work) for work in (self._probe, self._keep_house, self._watch_machine)]
        for thread in guests + others:
            thread.start()
        for thread in guests:
            thread.join()
        self.ended.set()
        for thread in others:
            thread.join()
        self.read_log()

    def play_one(self, number: int) -> Case:
        """One case alone, and what it has sent."""
        case = self._case(number, Stopwatch(self.machine))
        self._play(case, number)
        self.read_log()
        return case

    def _case(self, number: int, watch: Stopwatch) -> Case:
        ports = self.victim.port, self.victim.ports.get(LISTENER)
        return Case(ports, self.told.seed, number, watch, self.told.counts, most_items(number))

    def _guest(self, deadline: float) -> None:
        watch = Stopwatch(self.machine)
        while time.monotonic() < deadline and self.victim.is_running and len(self.told.faults) < _FAULTS_SHOWN:
            with self.lock:
                number = self.next_case
                if number >= self.end_case:
                    return
                self.next_case += 1
                self.told.cases += 1
            self._play(self._case(number, watch), number)

    def _play(self, case: Case, number: int) -> None:
        self.playing.add(case.name)
        try:
            case.run()
        except Fault as fault:
            self.told.fault(number, f"{fault}\n{self.victim.where()}", case.sent)
        except Exception as error:
            # What a guest stumbles over is the broker's fault, or this program's: nobody may miss it.
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            where = f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}" if at is not None else ""
            self.told.fault(number, f"{error!r} at {where}", case.sent)
        finally:
            self.playing.discard(case.name)
        with self.lock:
            self.told.longest_s = max(self.told.longest_s, case.longest_s)
            self.told.refused += case.refused

    def _probe(self) -> None:
        """An honest group, on a connection of its own."""
        watch = Stopwatch(self.machine)
        try:
            with Guest(self.victim.port, watch, "honest", Counter()) as guest:
                joined = guest.stable(HONEST, session_ms=6_000)
                while not self.ended.wait(0.02):
                    for ask in (self._heartbeat, self._versions):
                        watch.again()
                        ask(guest, joined)
                        took = watch.elapsed_s()
                        self.told.probe_s = max(self.told.probe_s, took)
                        if took > LATE_S:
                            raise Fault(f"the honest member waited for {took:.2f} s")
                        self.ended.wait(guest.throttled_s)
                guest.leave(HONEST, joined.member_id)  # the next one would wait for the end of its session
        except Exception as error:
            self.told.fault(None, f"the honest member fares badly near case {self.next_case}: {error!r}")

    def _heartbeat(self, guest: Guest, joined: Any) -> None:
        error = guest.heartbeat(HONEST, joined)
        if error and guest.throttled_s == 0:
            raise Fault(f"its heartbeat is answered with error {error}")

    def _versions(self, guest: Guest, joined: Any) -> None:
        guest.call(ApiKey.API_VERSIONS, 4, client_software_name="honest", client_software_version="1")

    def _watch_machine(self) -> None:
        self.machine.look()
        while not self.ended.wait(0.1):
            self.machine.look()

    def _keep_house(self) -> None:
        """Take away what cases have left, and read the log."""
        while not self.ended.wait(1):
            self.read_log()
            try:
                self.tidy()
            except Exception as error:
                self.read_log()
                self.told.fault(None, f"the house cannot be kept near case {self.next_case}: {error!r}")
                return

    def tidy(self) -> None:
        """Remove topics, groups, quotas and settings that no case at play has made."""
        with Client(self.victim.port, "house") as client:
            rows = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False).entries or []
            entries = [
                {
                    "entity": [
                        {"entity_type": part.entity_type, "entity_name": part.entity_name} for part in row.entity
                    ],
                    "ops": [{"key": value.key, "remove": True} for value in row.values],
                }
                for row in rows
                if not {part.entity_name for part in row.entity} & {*TRUSTED}
            ]
            # What a case sets for everybody must keep neither the honest member nor this client waiting.
            entries += [
                {
                    "entity": [
                        {"entity_type": "user", "entity_name": "ANONYMOUS"},
                        {"entity_type": "client-id", "entity_name": name},
                    ],
                    "ops": [{"key": key, "value": 1e15, "remove": False} for key in RATES],
                }
                for name in (TRUSTED if has_quotas(self.end_case - 1) else ())
            ]
            client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries)
            settings = [{"resource_type": 4, "resource_name": name, "configs": []} for name in ("", "1")]
            client.call(ApiKey.ALTER_CONFIGS, 2, resources=settings)
            topics = [
                row.name for row in client.metadata().topics if not row.is_internal and not self._is_used(row.name)
            ]
            client.call(
                ApiKey.DELETE_TOPICS, 5, topic_names=[name for name in topics if name not in STANDING], timeout_ms=9
            )
            for name, configs in STANDING.items():
                if name not in topics:
                    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
                    row = {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": rows}
                    client.call(ApiKey.CREATE_TOPICS, 5, topics=[row], timeout_ms=9)
            if self.victim.ports:  # a case may have taken them away
                client.call(ApiKey.CREATE_ACLS, 3, creations=MAY_READ)
            groups = [row.group_id for row in client.call(ApiKey.LIST_GROUPS, 4).groups]
            gone = [group for group in groups if not self._is_used(group)]
            client.call(ApiKey.DELETE_GROUPS, 2, groups_names=gone)

    def _is_used(self, name: str) -> bool:
        return any(name.startswith(case) for case in list(self.playing))

    def read_log(self) -> None:
        """See whether the broker has logged a fault of its own."""
        for text in self.victim.bugs():
            client = re.search(r"fuzz-(\d+)", text)
            frames = [line.strip("│ ") for line in text.splitlines() if _FRAME.search(line)]
            digest = [line for line in text.splitlines() if line[:1] not in "│╭╰"]
            shown = "\n".join(frames[-3:] + [line[:300] for line in digest[-3:]])
            self.told.fault(int(client[1]) if client else None, f"it has logged: {shown}")
        if not self.victim.is_running:
            last = self.victim.log_text()[-1500:]
            self.told.fault(None, f"the broker has ended with {self.victim.stop()} near case {self.next_case}:\n{last}")

    def end_transactions(self) -> None:
        """Abort those that cases have left open: they may take a minute."""
        with Client(self.victim.port, "house") as client:
            for row in client.call(ApiKey.LIST_TRANSACTIONS, 0).transaction_states:
                if row.transaction_state == "Ongoing":
                    client.producer(row.transactional_id)

    def quiet(self, enough_bytes: int = 0) -> int:
        """What it has in use once that is little enough, or after a while: what is left is forgotten meanwhile."""
        deadline = time.monotonic() + QUIET_S
        self.tidy()
        self.end_transactions()
        least = self.victim.used_bytes()
        while least > enough_bytes and time.monotonic() < deadline:
            time.sleep(0.5)
            self.tidy()
            least = min(least, self.victim.used_bytes())
        return least


def play_round(told: Told, number: int, seconds: float, cases: int | None, warm_up_s: float) -> None:
    """One round: begin, warm up, be quiet, fire, be quiet again, stop, start on what was written, serve.

    Growth is counted by what is in use, not by resident memory: a burst leaves that scattered, for the next one.
    """
    settings = QUICK | ROUNDS[number % len(ROUNDS)]
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, Fuzzed(Path(folder) / "data", settings) as victim:
        fire = Round(victim, told, number * ROUND)
        fire.tidy()
        if warm_up_s:
            fire.play(warm_up_s)
        used, idle = fire.quiet(), victim.rss_bytes()
        victim.forget_peak()
        before, began = told.cases, time.monotonic()
        fire.play(seconds, cases)
        told.seconds += time.monotonic() - began
        if not victim.is_running:
            return
        peak = victim.peak_bytes() - idle
        growth = fire.quiet(used) - used
        told.kept_bytes = max(told.kept_bytes, victim.rss_bytes() - idle)
        told.peak_bytes, told.growth_bytes = max(told.peak_bytes, peak), max(told.growth_bytes, growth)
        if peak > PEAK_BYTES:
            told.fault(None, f"it took {peak >> 20} MB more than idle in round {number}")
        if growth > GROWTH_BYTES:
            told.fault(None, f"it uses {growth >> 10} kB more in round {number}, after {told.cases - before} cases")
        end(victim, told, fire)


def end(victim: Fuzzed, told: Told, fire: Round) -> None:
    """Stop, start again on what hostile clients wrote, and serve."""
    if (code := victim.stop()) != 0:
        told.fault(None, f"it ended with {code} when it was told to stop")
    try:
        victim.start()
        fire.read_log()
        with Client(victim.port, "after") as client:
            topic = client.topic()
            assert client.produce(topic).error_code == 0
            assert client.fetch(topic).records
            client.stable("after", session_ms=2_000)
        fire.read_log()
    except Exception as error:
        told.fault(None, f"it does not serve after a restart: {error!r}\n{victim.log_text()[-3000:]}")


def play(seed: int, seconds: float, cases: int | None = None, *, rounds: int = 4, warm_up_s: float = 15.0) -> Told:
    """Some rounds of so many seconds together."""
    told = Told(seed)
    for number in range(rounds):
        play_round(told, number, seconds / rounds, cases, warm_up_s)
    return told


def play_case(seed: int, number: int) -> Told:
    """One case alone; prints what it sends."""
    told = Told(seed)
    settings = QUICK | ROUNDS[number // ROUND % len(ROUNDS)]
    with tempfile.TemporaryDirectory() as folder, Fuzzed(Path(folder) / "data", settings) as victim:
        fire = Round(victim, told, number)
        fire.tidy()
        case = fire.play_one(number)
        for data in case.sent:
            print(data.hex())
        print(victim.log_text())
        end(victim, told, fire)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0, help="of fire, over all rounds")
    parser.add_argument("--cases", type=int, help="at most so many in each round")
    parser.add_argument("--rounds", type=int, help="brokers; by default four, and one for every ten minutes more")
    parser.add_argument("--case", type=int, help="play this one alone")
    wanted = parser.parse_args()
    if wanted.case is not None:
        told = play_case(wanted.seed, wanted.case)
    else:
        rounds = wanted.rounds or max(len(ROUNDS), int(wanted.minutes / 10))
        told = play(wanted.seed, wanted.minutes * 60, wanted.cases, rounds=rounds)
        print(told.table())
    print(told.line())
    return 1 if told.faults else 0


if __name__ == "__main__":
    sys.exit(main())
