"""The demo's own reckoning: it must not pass when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

from examples.demo.broker_log import BrokerLog
from examples.demo.ledger import Ledger
from examples.demo.lines import collect, read
from examples.demo.reports import Position, Report, Tail, checksum

A, B, C = Position(0, 0, 11), Position(0, 1, 12), Position(3, 7, 13)


def test_lines_seen_once_by_different_members_are_neither_lost_nor_repeated() -> None:
    ledger = Ledger()
    ledger.sent([A, B, C])
    ledger.saw("one", [A, B])
    ledger.saw("two", [C])
    assert (ledger.lost(), ledger.repeated.total(), ledger.unknown(), ledger.altered()) == ([], 0, [], [])
    assert ledger.lines_sent == ledger.lines_seen == 3
    assert ledger.log_ends() == {0: 2, 3: 8}


def test_a_line_that_nobody_saw_is_lost() -> None:
    ledger = Ledger()
    ledger.sent([A, B, C])
    ledger.saw("one", [A, C])
    assert ledger.lost() == [(0, 1)]


def test_repetitions_are_counted_for_the_member_that_saw_the_line_first() -> None:
    ledger = Ledger()
    ledger.sent([A, B])
    ledger.saw("killed", [A, B])
    ledger.saw("heir", [A, B])
    ledger.saw("heir", [B])
    assert ledger.repeated == {"killed": 3}
    assert ledger.sightings == {"killed": 2, "heir": 3}
    assert ledger.lines_seen == 2


def test_a_line_seen_before_its_acknowledgement_was_read_counts_as_sent() -> None:
    ledger = Ledger()
    ledger.saw("one", [A])
    assert ledger.unknown() == [(0, 0)]
    ledger.sent([A])
    assert ledger.unknown() == ledger.lost() == []


def test_another_text_at_the_same_place_is_an_alteration_whoever_sees_it() -> None:
    ledger = Ledger()
    ledger.sent([A, B])
    ledger.saw("one", [Position(0, 0, 99), B])
    ledger.saw("two", [Position(0, 1, 98)])
    assert ledger.altered() == [(0, 0), (0, 1)]


def test_progress_beyond_a_mark_is_judged_for_each_member() -> None:
    ledger = Ledger()
    ledger.saw("one", [A, B])
    assert ledger.saw_beyond("one", {0: 1})
    assert not ledger.saw_beyond("one", {0: 2})
    assert not ledger.saw_beyond("two", {})


def test_reports_are_read_as_they_grow_and_a_torn_end_waits_for_its_rest(tmp_path: Path) -> None:
    positions, events = Tail(tmp_path / "m.positions"), Tail(tmp_path / "m.events")
    assert list(positions.positions()) == [] and events.lines() == []
    report = Report(tmp_path, "m")
    report.positions([A, C])
    assert list(positions.positions()) == [A, C]
    report.positions([B])
    whole = (tmp_path / "m.positions").read_bytes()
    (tmp_path / "m.positions").write_bytes(whole[:-3])
    assert list(positions.positions()) == []
    (tmp_path / "m.positions").write_bytes(whole)
    assert list(positions.positions()) == [B]
    report.event("assigned", partitions=[1, 2])
    with (tmp_path / "m.events").open("a") as file:
        file.write('{"event": "rev')
    (line,) = events.lines()
    assert json.loads(line)["partitions"] == [1, 2]
    assert events.lines() == []


def test_checksums_tell_keys_and_texts_apart() -> None:
    assert checksum(b"k", b"v") == checksum(b"k", b"v")
    assert len({checksum(b"k", b"v"), checksum(b"k", b"w"), checksum(b"l", b"v")}) == 3


def test_lines_of_a_file_keep_their_numbers_and_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"one\n\n\xff three\nlast without end")
    lines = read(tmp_path / "a.py", tmp_path)
    assert [(line.key, line.value) for line in lines] == [
        (b"a.py:1", b"one"), (b"a.py:2", b""), (b"a.py:3", b"\xff three"), (b"a.py:4", b"last without end"),
    ]  # fmt: skip


def test_collecting_stops_at_the_file_that_reaches_the_count() -> None:
    corpus = collect(5_000)
    assert 5_000 <= len(corpus.lines) < 20_000
    assert len({line.key for line in corpus.lines}) == len(corpus.lines)
    assert corpus.origin == "the Python standard library"


def entry(at: int, kind: str, group: str = "g", **fields: object) -> bytes:
    row = {"kind": kind, "group_id": group, "timestamp": f"2026-01-01T00:00:{at:02}Z", **fields}
    return json.dumps(row).encode()


def test_rebalances_are_read_with_cause_generation_and_duration() -> None:
    log = BrokerLog("g")
    log.read(
        [
            b"not json",
            entry(0, "MemberAdded", member_id="a-1", client_id="a"),
            entry(0, "RebalanceStarted", reason="first", generation=0),
            entry(1, "MemberAdded", member_id="b-1", client_id="b"),
            entry(1, "RebalanceStarted", group="other", reason="x", generation=5),
            entry(3, "GenerationStarted", generation=1, members=2),
        ]
    )
    assert log.current is log.rebalances[0]
    log.read([entry(4, "AssignmentReceived", generation=1)])
    log.read(
        [
            entry(9, "SessionExpired", member_id="b-1"),
            entry(9, "RebalanceStarted", reason="expiry", generation=1),
            entry(10, "GenerationStarted", generation=2, members=1),
            entry(12, "AssignmentReceived", generation=2),
            entry(20, "MemberLeft", member_id="a-1"),
            entry(20, "RebalanceStarted", reason="leave", generation=2),
            entry(20, "GenerationStarted", generation=3, members=0),
        ]
    )
    assert log.current is None
    assert [(one.generation, one.members, one.took_s, one.happened) for one in log.rebalances] == [
        (1, 2, 4.0, [("joined", "a"), ("joined", "b")]),
        (2, 1, 3.0, [("sent no heartbeat", "b")]),
        (3, 0, 0.0, [("left", "a")]),
    ]
