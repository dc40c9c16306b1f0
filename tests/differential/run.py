"""Run traces against Apache Kafka and Ottla and say where they differ: ``python run.py --help``."""

from __future__ import annotations

import argparse
import fnmatch
import pprint
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import cleaning_traces
import config_traces
import frame_traces
import group_traces
import isolation_traces
import log_traces
import member_traces
import offset_traces
import random_traces
import record_traces
import small_api_traces
import topic_traces
import transaction_traces
from calls import TOPIC, log_end, note_log
from explained import Leaf, is_known
from real_kafka import NoJava, RealKafka, version
from tracing import Script, Trace

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.testing import BrokerProcess

# What both brokers are started with. "prompt": a group's first generation forms at once; "waiting": it does not.
COMMON = {
    "group.min.session.timeout.ms": 300,
    "group.max.session.timeout.ms": 1_800_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "num.partitions": 2,
    "log.cleaner.backoff.ms": 200,
    "log.message.timestamp.after.max.ms": 3_600_000,
    "offset.metadata.max.bytes": 64,
}
PROFILES: dict[str, dict[str, object]] = {
    "prompt": COMMON | {"group.initial.rebalance.delay.ms": 0},
    "waiting": COMMON | {"group.initial.rebalance.delay.ms": 600, "group.max.size": 2},
}


class Case(NamedTuple):
    """A script with its name and the profile it needs."""

    name: str
    profile: str
    script: Script
    alone: bool = True  # only the first difference says something


def cases(seeds: int, first: int) -> list[Case]:
    found = []
    for module in (group_traces, member_traces, offset_traces, topic_traces, log_traces, record_traces, frame_traces,
                   small_api_traces, transaction_traces, config_traces, cleaning_traces,
                   isolation_traces):  # fmt: skip
        for name, script in vars(module).items():
            if name.startswith("trace_"):
                profile = "waiting" if name.startswith("trace_waiting_") else "prompt"
                found.append(
                    Case(name.removeprefix("trace_").replace("_", "-"), profile, script, module is group_traces)
                )
    for seed in range(first, first + seeds):
        for kind, make in random_traces.KINDS.items():
            found.append(Case(f"random-{kind}-{seed}", "prompt", make))
    return found


def transcript(trace: Trace, script: Script) -> None:
    try:
        start = log_end(trace)
        script(trace)
        note_log(trace, start)
    except Exception as error:  # a broker that answers nonsense must not end the run
        trace.note("the trace broke", repr(error))
    finally:
        trace.close()


def pair(ports: tuple[int, int], case: Case, attempt: int) -> tuple[Trace, Trace]:
    """The same trace for Kafka and for Ottla, each waiting for the other at every step."""
    name = f"{case.name}.{attempt}" if attempt else case.name
    theirs, ours = (Trace(port, name, quiet_ms=15 << (2 * attempt)) for port in ports)
    for trace, peer in ((theirs, ours), (ours, theirs)):
        trace.random.seed(case.name)
        trace.peer = peer
    return theirs, ours


def first_difference(ours: Trace, theirs: Trace) -> int | None:
    pairs = zip(ours.transcript, theirs.transcript, strict=False)
    for at, ((label, mine), (other, wanted)) in enumerate(pairs):
        if label != other or unexplained(label, wanted, mine):
            return at
    return None if len(ours.transcript) == len(theirs.transcript) else min(len(ours.transcript), len(theirs.transcript))


def leaders_only(ours: Trace, theirs: Trace, at: int) -> bool:
    """Both chose a leader, and not the same one: Kafka takes whichever its hash map gives first."""
    if at >= min(len(ours.transcript), len(theirs.transcript)):
        return False
    (label, mine), (other, wanted) = ours.transcript[at], theirs.transcript[at]
    arbitrary = {"leader": "", "members": []}
    return (
        label == other
        and "JOIN_GROUP" in label
        and isinstance(mine, dict)
        and isinstance(wanted, dict)
        and mine["leader"] != wanted["leader"]
        and mine["error_code"] == wanted["error_code"] == "NONE"
        and mine | arbitrary == wanted | arbitrary
    )


def report(case: Case, ours: Trace, theirs: Trace, at: int) -> str:
    lines = [f"=== {case.name}: step {at} differs"]
    if case.name.startswith("random") or case.alone:  # what follows a difference follows from it
        lines += [f"    {label}: {_short(value)}" for label, value in theirs.transcript[max(at - 6, 0) : at]]
        end = at + 1
    else:
        end = len(theirs.transcript)
    blank = ("the end", None)
    seen: list[list[Leaf]] = []
    for step in range(at, end):
        label, wanted = theirs.transcript[step] if step < len(theirs.transcript) else blank
        other, mine = ours.transcript[step] if step < len(ours.transcript) else blank
        if label != other:
            lines += [f"  Kafka {label}: {_short(wanted)}", f"  Ottla {other}: {_short(mine)}"]
            break
        if mine != wanted:
            found = unexplained(label, wanted, mine)
            if found and found not in seen:
                lines.append(f"  {label} {_note_before(theirs, step)}")
                lines += [f"      {path}: Kafka {_short(one)}; Ottla {_short(two)}" for path, one, two in found]
            seen.append(found)
    return "\n".join(lines)


def _note_before(trace: Trace, step: int) -> str:
    """What the trace says of a step, if it says something."""
    label, value = trace.transcript[step - 1] if step else ("", 0)
    return f"({label})" if value is None and not label.endswith(">") else ""


def leaves(wanted: object, mine: object, path: str = "") -> list[Leaf]:
    """Where two values differ, as deep as can be said."""
    if isinstance(wanted, dict) and isinstance(mine, dict):
        keys = [*wanted, *(key for key in mine if key not in wanted)]
        return [leaf for key in keys for leaf in leaves(wanted.get(key), mine.get(key), f"{path}.{key}")]
    if isinstance(wanted, list | tuple) and isinstance(mine, list | tuple) and len(wanted) == len(mine):
        pairs = enumerate(zip(wanted, mine, strict=True))
        return [leaf for number, (one, two) in pairs for leaf in leaves(one, two, f"{path}[{number}]")]
    return [] if wanted == mine else [Leaf(path, wanted, mine)]


def unexplained(label: str, wanted: object, mine: object) -> list[Leaf]:
    return [leaf for leaf in leaves(wanted, mine) if not is_known(label, leaf)]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 400 else f"{text[:400]}…"


@contextmanager
def brokers(profile: str) -> Iterator[tuple[int, int]]:
    settings = PROFILES[profile]
    with RealKafka(settings) as kafka, BrokerProcess(settings=settings) as ottla:
        for port in (kafka.port, ottla.port):
            _prepare(port)
        yield kafka.port, ottla.port


def _prepare(port: int) -> None:
    """The topic of the group traces, and a coordinator that is there and loaded."""
    trace = Trace(port, "prepare")
    topics = [CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)]
    _until(lambda: trace.call("p", ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=10_000).topics[0].error_code in
           (0, 36))  # fmt: skip
    for number in range(30):  # groups of every partition
        find = partial(trace.call, "p", ApiKey.FIND_COORDINATOR, 2, key=f"g{number}")
        _until(lambda find=find: find().error_code == 0)
        read = partial(trace.call, "p", ApiKey.OFFSET_FETCH, 5, group_id=f"g{number}", topics=[])
        _until(lambda read=read: read().error_code == 0)
    init = partial(trace.call, "p", ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout_ms=1000)
    _until(lambda: init().error_code == 0)
    for number in range(30):  # transactional ids of every partition
        find = partial(trace.call, "p", ApiKey.FIND_COORDINATOR, 2, key=f"prepare-{number}", key_type=1)
        _until(lambda find=find: find().error_code == 0)
        init = partial(trace.call, "p", ApiKey.INIT_PRODUCER_ID, 1, transactional_id=f"prepare-{number}",
                       transaction_timeout_ms=1000)  # fmt: skip
        _until(lambda init=init: init().error_code == 0)
    trace.close()


def _until(check: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise RuntimeError("a broker did not become ready")
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of traces, with * and ?; all without any")
    parser.add_argument("--seeds", type=int, default=20, help="random traces of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--all", action="store_true", help="print whole transcripts of Kafka")
    options = parser.parse_args()
    wanted = [
        case
        for case in cases(options.seeds, options.first)
        if (not options.patterns and not case.name.startswith("slow-"))
        or any(fnmatch.fnmatch(case.name, pattern) for pattern in options.patterns)
    ]
    try:
        return run(wanted, options.all)
    except NoJava as missing:
        print(f"SKIPPED: {missing}")
        return 0


def run(wanted: list[Case], whole: bool) -> int:
    answers = differences = unsteady = ambiguous = 0
    for profile in PROFILES:
        chosen = [case for case in wanted if case.profile == profile]
        if not chosen:
            continue
        with brokers(profile) as ports, ThreadPoolExecutor(2) as pool:
            for case in chosen:
                for attempt in range(3):
                    theirs, ours = pair(ports, case, attempt)
                    list(pool.map(transcript, (theirs, ours), [case.script] * 2))
                    answers += theirs.answers
                    at = first_difference(ours, theirs)
                    if at is not None and leaders_only(ours, theirs, at):
                        ambiguous += 1
                        break
                    if at is None:
                        if attempt:
                            print(f"    {case.name}: agreed when run again")
                        unsteady += bool(attempt)
                        break
                else:
                    differences += 1
                    print(report(case, ours, theirs, at), flush=True)
                if whole:
                    pprint.pp(theirs.transcript, width=150)
    print(f"Apache Kafka {version()}: {len(wanted)} traces, {answers} answers compared, {differences} differences, "
          f"{ambiguous} ended by an arbitrary leader, {unsteady} traces that agreed only when run again")  # fmt: skip
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
