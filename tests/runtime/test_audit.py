"""The audit: what it tells, what it tells once only, and its file."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.security.session import Session
from ottla.broker.runtime import audit as module
from ottla.broker.runtime.audit import LOGGER, MOST_DIFFERENT, QUIET_MS, Audit, AuditFile, unwritable
from tests.shell.host import Log

NOW_MS = 1_700_000_000_123


def client(name: str = "alice", host: str = "/10.0.0.7", client_id: str = "c", listener: str = "SASL") -> Any:
    session = Session(f"User:{name}", listener)
    return SimpleNamespace(session=session, client_host=host, client_port=4711, client_id=client_id)


class Told:
    """An audit under a clock by hand."""

    def __init__(self, file: AuditFile | None = None) -> None:
        self.now_ms = NOW_MS
        self.log = Log()
        self.to_come: list[tuple[int, Callable[[], None]]] = []
        self.audit = Audit(
            self.log, lambda: self.now_ms, lambda after_ms, then: self.to_come.append((after_ms, then)), file
        )

    def wait(self) -> None:
        """Let the time pass to which something was put off."""
        (after_ms, then), *self.to_come = self.to_come
        self.now_ms += after_ms
        then()

    def denied(self, who: Any, name: str = "orders") -> None:
        self.audit.tell_once("denied", who, ("READ", name), operation="READ", name=name)

    @property
    def others(self) -> list[int]:
        return [fields.get("others", 0) for _, fields in self.log.lines]


def test_who_did_what_from_where() -> None:
    told = Told()
    told.audit.tell("topic_created", client(), topic="orders", partitions=3)
    assert told.log.lines == [
        (
            "topic_created",
            {
                "logger": "ottla.audit",
                "principal": "User:alice",
                "listener": "SASL",
                "host": "10.0.0.7",
                "port": 4711,
                "client_id": "c",
                "topic": "orders",
                "partitions": 3,
            },
        )
    ]


def test_of_equal_events_one_is_told_in_ten_seconds() -> None:
    told = Told()
    for _ in range(4):
        told.denied(client())
    assert told.others == [0]
    told.now_ms += QUIET_MS
    told.denied(client())
    assert told.others == [0, 3, 0]


def test_the_others_are_told_in_time_whatever_happens_meanwhile() -> None:
    told = Told()
    told.denied(client())
    assert not told.to_come, "nobody waits for what is told"
    told.now_ms += 4_000
    told.denied(client(), "others")
    for name in ("orders", "others", "others"):
        told.denied(client(), name)
    told.wait()
    assert (told.now_ms - NOW_MS, told.others) == (QUIET_MS, [0, 0, 1])
    told.wait()
    assert (told.now_ms - NOW_MS, told.others) == (QUIET_MS + 4_000, [0, 0, 1, 2])
    assert not told.to_come


def test_what_is_told_again_is_told_as_if_it_were_told_anew() -> None:
    """Whoever keeps what was told may say that it happened again, as long as that is known."""
    rng = random.Random(1)
    told, kept = Told(), Told()
    known: dict[int, Any] = {}
    for _ in range(3_000):
        key = rng.randrange(4)
        told.audit.tell_once("denied", client(), key)
        if (last := known.get(key)) is None or not kept.audit.tell_again(last, kept.now_ms):
            known[key] = kept.audit.tell_once("denied", client(), key)
        if rng.random() < 0.2:
            passed_ms = rng.randrange(QUIET_MS)
            told.now_ms += passed_ms
            kept.now_ms += passed_ms
        if rng.random() < 0.2 and told.to_come:
            told.wait()
            kept.wait()
        assert kept.log.lines == told.log.lines
    assert len(told.others) > 100 and sum(told.others) > 500


def test_many_events_of_a_kind_leave_room_for_another_kind() -> None:
    told = Told()
    for number in range(MOST_DIFFERENT + 1):
        told.audit.tell_once("authentication_failed", client(), number)
    told.denied(client())
    assert (told.audit.dropped, told.log.lines[-1][0]) == (1, "denied")


def test_events_that_differ_are_told_each() -> None:
    told = Told()
    for who in (client(), client("bob"), client(host="/10.0.0.8"), client(listener="OTHER")):
        told.denied(who)
        told.denied(who, "others")
    assert told.others == [0] * 8


def test_at_the_end_the_others_are_told() -> None:
    told = Told()
    for _ in range(3):
        told.denied(client())
    told.audit.stop()
    assert told.others == [0, 2]


def test_there_are_so_many_different_ones_at_most() -> None:
    told = Told()
    for number in range(MOST_DIFFERENT + 5):
        told.denied(client(), f"t{number}")
    assert (len(told.log.lines), told.audit.dropped) == (MOST_DIFFERENT, 5)
    told.wait()
    assert told.log.lines[MOST_DIFFERENT:] == [("left_out", {"logger": LOGGER, "of": "denied", "events": 5})]
    told.audit.stop()
    assert len(told.log.lines) == MOST_DIFFERENT + 1, "and not again"
    told.now_ms += QUIET_MS
    told.denied(client(), "another")
    assert len(told.log.lines) == MOST_DIFFERENT + 2


def test_names_of_clients_cannot_make_lines() -> None:
    told = Told()
    told.audit.tell("topic_created", client("a\nb" + "x" * 300, client_id="\x1b[2J"), topics=["ok", "\u2028"])
    _, fields = told.log.lines[0]
    assert fields["principal"] == "User:a\\nb" + "x" * 242 + "…"
    assert fields["client_id"] == "\\x1b[2J"
    assert fields["topics"] == ["ok", "\\u2028"]


# -- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def file(path: Path) -> Iterator[AuditFile]:
    file = AuditFile(path, lambda error: pytest.fail(str(error)))
    yield file
    file.close()


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_file_has_a_line_for_each_event(path: Path, file: AuditFile) -> None:
    told = Told(file)
    told.denied(client("bö\nb"))
    told.denied(client("bö\nb"))
    told.audit.stop()
    told.audit.close()
    first, second = rows(path)
    assert first["at"] == "2023-11-14T22:13:20.123Z"
    assert (first["event"], first["principal"], first["name"]) == ("denied", "User:bö\\nb", "orders")
    assert second == first | {"others": 1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_gives_way(path: Path, file: AuditFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 10)
    for line in (b"first\n", b"second\n", b"third\n"):
        file.write(line)
    file.close()
    assert (path.read_bytes(), path.with_name("audit.log.1").read_bytes()) == (b"third\n", b"second\n")


def test_a_disk_that_fails_is_told_once_and_counted(tmp_path: Path) -> None:
    told: list[str] = []
    file = AuditFile(tmp_path / "nowhere" / "audit.log", told.append)
    assert told == [f"there is no directory {tmp_path / 'nowhere'}"], "before there is anything to write"
    for _ in range(3):
        file.write(b"x\n")
    file.close()
    assert (len(told), file.dropped) == (1, 3)


def test_a_file_that_can_be_written_is_not_made_by_looking(tmp_path: Path) -> None:
    assert unwritable(tmp_path / "audit.log") == "" and not [*tmp_path.iterdir()]
    assert unwritable(tmp_path) == "it is a directory"


def test_nobody_waits_for_a_slow_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 10)
    may_go_on = threading.Event()
    monkeypatch.setattr(AuditFile, "_append", lambda self, line: may_go_on.wait())
    file = AuditFile(path, lambda error: None)
    for _ in range(5):
        file.write(b"1234")
    assert file.dropped == 3
    may_go_on.set()
    file.close()
