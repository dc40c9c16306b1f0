"""What consumer groups compute, held against Apache Kafka's own classes, without a broker.

``python -m tests.differential.group_functions`` makes scripts at random, has Kafka's classes and Ottla's functions
answer them (`tests/core/consumer_groups/functions.py` says what a script is), and compares the answers.
"""

from __future__ import annotations

import argparse
import base64
import random
import string
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from tests.core.consumer_groups.functions import Group
from tests.differential.real_kafka import JVM, NoJava, jars, version

RECORDED = Path(__file__).parents[1] / "core" / "consumer_groups" / "kafka_answers.txt"
PROGRAM = Path(__file__).parent / "GroupFunctions.java"
BASE64 = string.ascii_letters + string.digits + "-_"
MEMBER_IDS: list[Callable[[Random], str]] = [
    lambda chance: "".join(chance.choices(BASE64, k=22)),
    lambda chance: "".join(chance.choices(string.ascii_letters, k=chance.randint(1, 2))),
    lambda chance: f"member-{chance.randint(1, 99)}",
    lambda chance: "".join(chance.choices("aé日\U0001f600\uffee", k=chance.randint(1, 4))),
]
RACKS = [["-"], ["-"], ["r1"], ["r1", "r1,r2", "r2,r1,r1", "-", "\U0001f600,\uffee"]]
ATOMS = [
    *(
        "a",
        "b",
        "T",
        "t",
        "-",
        "_",
        ".",
        "1",
        "^",
        "$",
        "topic",
        "[ab]",
        "[^a]",
        "[a-z]",
        "[[:alpha:]]",
        "[[:^digit:]]",
    ),
    *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\b", r"\B", r"\A", r"\z", r"\.", r"\pL", r"\PN", r"\p{Lu}", r"\x41"),
    *(
        "[[:^digit:]]",
        "(?i)",
        "(?s)",
        "(?-i)",
        "(?m)",
        "(?U)",
        r"\Q.\E",
        r"\-",
        r"[\w-]",
        "[]a]",
        "(?P<n>a)",
        "(?P<m>b)",
        "(?<k>a)",
    ),
]
REPETITIONS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}", "{0}", "{,2}"]
TEXTS = ["", "a", "b", "ab", "t", "T", "aB", "topic", "topic-1", "Topic_1", "a.b", "12", "a1", "-", "aaa", "abab", "k"]


class Script:
    """A group at random: one topic or several, whose members join, change, are replaced and leave."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines = ["new"]
        self.names = ["t"] if seed % 3 == 0 else ["t", "u", "v", "orders"][: self.chance.randint(2, 4)]
        self.racks = self.chance.choice(RACKS)
        self.is_mixed = seed % 3 == 2
        self.make_id = self.chance.choice(MEMBER_IDS)
        self.assignors = self.chance.choice([["uniform"], ["uniform"], ["range"], ["uniform", "range"]])
        self.most_members = self.chance.choice([2, 3, 5, 8, 20, 60])
        self.topic_ids: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.members: dict[str, str] = {}

    def written(self) -> list[str]:
        """The lines."""
        for name in self.names:
            self.grow(name)
        for _ in range(self.chance.randint(3, 25)):
            what = self.chance.random()
            if what < 0.12 and self.members:
                self.leave()
            elif what < 0.2:
                self.grow(self.chance.choice(self.names))
            elif what < 0.23 and len(self.counts) > 1:
                name = self.chance.choice(list(self.counts))
                del self.counts[name], self.topic_ids[name]
                self.lines.append(f"delete {name}")
            elif what < 0.27 and self.is_mixed:
                topics = self.chance.sample(self.names, self.chance.randint(0, len(self.names)))
                self.lines.append(f"resolved {self.chance.choice(['t.*', 'x'])} {','.join(topics) or '-'}")
            else:
                self.heartbeat()
        return self.lines

    def grow(self, name: str) -> None:
        few, many = [1, 2, 3, 4], [1, 2, 3, 5, 8, 13, 40, 200]
        count = self.counts[name] = self.counts.get(name, 0) + self.chance.choice(self.chance.choice([few, many]))
        topic_id = self.topic_ids.setdefault(name, f"{self.chance.getrandbits(128):032x}")
        of_partitions = ";".join(self.chance.choice(self.racks) for _ in range(count))
        self.lines.append(f"topic {name} {topic_id} {of_partitions}")

    def leave(self) -> None:
        member_id = self.chance.choice(list(self.members))
        del self.members[member_id]
        self.lines.append(f"leave {member_id}")

    def heartbeat(self) -> None:
        known = list(self.members)
        if known and (len(known) >= self.most_members or self.chance.random() < 0.25):
            member_id = self.chance.choice(known)
            instance_id = self.members[member_id]
        else:
            member_id = self.make_id(self.chance)
            instance_id = self.chance.choice(["i1", "i2", "ü"]) if self.chance.random() < 0.2 else "-"
            if member_id in self.members:
                instance_id = self.members[member_id]
        for other in known:
            if self.members[other] == instance_id != "-":
                del self.members[other]
        self.members[member_id] = instance_id
        names = list(self.names)
        regex = "-"
        if self.is_mixed:
            names = self.chance.sample(names, self.chance.randint(0, len(names)))
            regex = self.chance.choice(["-", "-", "t.*", "x"])
        if self.chance.random() < 0.1:
            names.append("missing")
        preferred = self.chance.choice(["-", "-", "uniform", "range"])
        assignor = self.chance.choice(self.assignors)
        self.lines.append(f"{member_id} {instance_id} {','.join(names) or '-'} {regex} {preferred} {assignor}")


def pattern_line(chance: Random) -> str:
    """A pattern at random, mostly one that is one."""
    raw = "".join(chance.choices("ab1.*+?()[]{}|^$\\-,:<>=!PQEipnLswdD2& ", k=chance.randint(1, 10)))
    pattern = _pattern(chance, 4) if chance.random() < 0.7 else raw
    if "[:]" in pattern:  # within a class the port takes it for the beginning of a name
        pattern = "a"
    return " ".join(["pattern", *(base64.b64encode(text.encode()).decode() for text in (pattern, *TEXTS))])


def _pattern(chance: Random, depth: int) -> str:
    kind = chance.random() if depth else 0
    if kind < 0.5:
        return chance.choice(ATOMS) + chance.choice(REPETITIONS)
    if kind < 0.8:
        return _pattern(chance, depth - 1) + chance.choice(["", "|"]) + _pattern(chance, depth - 1)
    return (
        chance.choice(["(", "(?:", "(?i:", "(?i-s:"]) + _pattern(chance, depth - 1) + ")" + chance.choice(REPETITIONS)
    )


def script(seed: int) -> list[str]:
    """The commands of a seed."""
    if seed % 10 == 9:
        chance = random.Random(seed)
        return [pattern_line(chance) for _ in range(100)]
    return Script(seed).written()


def ask_kafka(lines: Iterable[str]) -> list[str]:
    """Kafka's answers.

    Raises:
        NoJava: there is none, or no Maven to fetch Kafka's classes with.
    """
    command = ["java", *JVM, "-Dfile.encoding=UTF-8", "-cp", f"{jars()}/*", str(PROGRAM)]
    asked = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8", check=True)
    return asked.stdout.split("\n")[:-1]


def differences(seeds: range) -> tuple[list[str], int]:
    """What differs first in each seed, in words, and how many answers were compared."""
    scripts = {seed: script(seed) for seed in seeds}
    answers = iter(ask_kafka(line for lines in scripts.values() for line in lines))
    found: list[str] = []
    compared = 0
    for seed, lines in scripts.items():
        group = Group()
        theirs = [next(answers) for _ in lines]
        for line, expected in zip(lines, theirs, strict=True):
            compared += 1
            if (said := group.answer(line)) not in (expected, "too large"):
                found.append(f"seed {seed}: {line}\n    Kafka: {expected}\n    Ottla: {said}")
                break
    return found, compared


def record(seeds: range) -> None:
    """Write scripts with Kafka's answers for the tests that run without Java."""
    lines = [line for seed in seeds for line in script(seed)]
    rows = (row for pair in zip(lines, ask_kafka(lines), strict=True) for row in pair)
    RECORDED.write_text("\n".join(rows) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many scripts")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--record", action="store_true", help=f"write Kafka's answers to {RECORDED.name}")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    try:
        if options.record:
            record(seeds)
            return 0
        found, compared = differences(seeds)
    except NoJava as missing:
        print(f"SKIPPED: {missing}")
        return 0
    for text in found:
        print(text)
    print(f"Apache Kafka {version()}: {len(seeds)} scripts, {compared} answers compared, {len(found)} differences")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
