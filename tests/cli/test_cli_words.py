"""The pure parts of the commands: formats, subjects, tables, starts, and where a group is moved to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import click
import pytest

from ottla.cli.common import _sentence, names, topic_partitions, word
from ottla.cli.configs import parse_pairs
from ottla.cli.consume import as_json
from ottla.cli.escapes import compile_format, unescape
from ottla.cli.group_words import partitions_in_words
from ottla.cli.output import Refused, Styled, duration, plain
from ottla.cli.produce import Outcome, Shape, lines
from ottla.cli.resets import CannotReset, Move, Place, Target, To, move, parse_datetime_ms, parse_start
from ottla.cli.silence import Silence
from ottla.clients import ConsumerRecord
from ottla.protocol.records import TimestampType


def record(key: bytes | None = b"k", value: bytes | None = b"val", headers: tuple = ()) -> ConsumerRecord:
    return ConsumerRecord("orders", 2, 41, 1_700_000_000_123, TimestampType.CREATE_TIME, key, value, headers)


def formatted(text: str) -> bytes:
    return compile_format(text)(record(headers=(("a", b"1"), ("b", None))))


READ: dict[Callable[[str], Any], dict[str, Any]] = {
    formatted: {
        r"%t/%p/%o\n": b"orders/2/41\n",
        r"%k\t%s": b"k\tval",
        "%K %S %T": b"1 3 1700000000123",
        "100%% %h": b"100% a=1,b=NULL",
        r"\x1f\\%s\0": b"\x1f\\val\x00",
        "": b"",
        "ä": "ä".encode(),
    },
    unescape: {r"%s\t%": b"%s\t%"},
    topic_partitions: {"orders": ("orders", None), "orders:0,2": ("orders", [0, 2]), "a:2-4,3,0": ("a", [0, 2, 3, 4])},
    parse_start: {
        "earliest": Target(To.EARLIEST),
        "beginning": Target(To.EARLIEST),
        "end": Target(To.LATEST),
        "0": Target(To.OFFSET, 0),
        "-10": Target(To.LAST, 10),
        "@1970-01-01T00:00:01": Target(To.TIME, 1000),
        "s@1234": Target(To.TIME, 1234),
    },
    parse_pairs: {
        "a=1": {"a": "1"},
        "a=1, b=2": {"a": "1", "b": "2"},
        "a=[1,2],b=": {"a": "1,2", "b": ""},
        "a=x=y": {"a": "x=y"},
        "a=[1,2": {"a": "[1,2"},
        "a=1,": {"a": "1"},
    },
    # UTC unless they say otherwise.
    parse_datetime_ms: {
        "1970-01-01T00:00:01.500": 1_500,
        "1970-01-02": 86_400_000,
        "1970-01-01T02:00+02:00": 0,
        "2026-05-04T13:30:00.000Z": 1_777_901_400_000,
    },
    word: {"a": "a", "a b": "'a b'", "a\n'\\": r"$'a\u000a\'\\'", "\x85\U000e0001": r"$'\u0085\U000e0001'"},
    # Failures become sentences, and names stay as they are.
    _sentence: {
        "localhost:9092: it is closed": "localhost:9092: it is closed.",
        "create topic 'a': no": "Create topic 'a': no.",
        "nf-0: the batch is corrupt": "Topic 'nf', partition 0: the batch is corrupt.",
        "my.topic-1-12: no: more!": "Topic 'my.topic-1', partition 12: no: more!",
        "broker 1-x: no": "Broker 1-x: no.",
    },
}


@pytest.mark.parametrize(
    ("read", "text", "expected"), [(read, text, expected) for read in READ for text, expected in READ[read].items()]
)
def test_texts_are_read(read: Callable[[str], Any], text: str, expected: Any) -> None:
    assert read(text) == expected


REFUSED: list[tuple[Callable[[str], Any], type[Exception], str, list[str]]] = [
    (compile_format, ValueError, "%x in '%x' means nothing", ["%x"]),
    (compile_format, ValueError, "single %", ["50%"]),
    (compile_format, ValueError, "is no escape", [r"\q"]),
    (parse_datetime_ms, ValueError, "'yesterday' is no date", ["yesterday"]),
    (parse_start, click.UsageError, "--offset", ["", "x", "1.5", "@", "@soon", "--1"]),
    (parse_pairs, click.UsageError, "KEY=VALUE", ["a", "=1", "a=1,b"]),
    (
        topic_partitions,
        click.UsageError,
        "TOPIC:PARTITION",
        ["", ":1", "orders:", "orders:x", "orders:-1", "orders:1,,2", "orders:٣"],
    ),
]


@pytest.mark.parametrize(
    ("read", "error", "complaint", "text"), [(*row, text) for *row, texts in REFUSED for text in texts]
)
def test_texts_that_mean_nothing_are_refused(
    read: Callable[[str], Any], error: type[Exception], complaint: str, text: str
) -> None:
    with pytest.raises(error, match=complaint):
        read(text)


def test_a_record_as_json_keeps_bytes_that_are_no_text() -> None:
    row = json.loads(as_json(record(b"\xff", None, (("h", b"x"),))))
    assert row == {
        "topic": "orders", "partition": 2, "offset": 41, "timestamp": 1_700_000_000_123,
        "key_base64": "/w==", "value": None, "headers": [{"name": "h", "value": "x"}],
    }  # fmt: skip
    assert as_json(record(value="zwölf\n".encode())).count(b"\n") == 1


def test_subjects_come_from_arguments_and_options_each_once() -> None:
    assert names(("a", "b"), ("b", "c"), "topic") == ["a", "b", "c"]
    with pytest.raises(click.UsageError, match="--topic"):
        names((), (), "topic")


def test_partitions_are_told_in_runs() -> None:
    places = [("b", 0), ("a", 7), ("a", 1), ("a", 0), ("a", 2)]
    assert partitions_in_words(places) == "a 0-2,7; b 0"
    assert partitions_in_words([]) == ""


def test_plain_tables_are_aligned_and_not_cut() -> None:
    text = plain(("name", "n", "x"), [("a" * 90, 5, Styled("red", "red")), ("b", 123, None)], [False, True, False])
    first, second, third = text.splitlines()
    assert first == "NAME" + " " * 86 + "    N  X"
    assert second == "a" * 90 + "    5  red"
    assert third == "b" + " " * 89 + "  123  -"


def test_a_table_without_headings_has_no_heading_line() -> None:
    assert plain(("", ""), [("a", 1)], [False, True]) == "a  1"


def test_an_outage_is_told_once_and_so_is_its_end() -> None:
    silence = Silence("here:9092")
    seen = [silence.words(ms) for ms in (0.0, 500.0, 0.0, 2_900.0, 3_100.0, 9_000.0, 0.0, 0.0, 3_000.0)]
    down = "No broker answers at here:9092; still trying."
    assert seen == [None, None, None, None, down, None, "Connected again.", None, down]


def test_refusals_say_what_to_do_below_what_happened() -> None:
    assert Refused("It failed.", "Try again.").format_message() == "It failed.\n  Try again."
    assert Refused("It failed.").exit_code == 1


def test_durations_for_people() -> None:
    assert [duration(seconds) for seconds in (0.04, 59.9, 125)] == ["0.0 s", "59.9 s", "2 min 5 s"]


def shape(**options: object) -> Shape:
    given = {"topic": "t", "partition": None, "key": None, "key_separator": None, "empty_is_null": False, "headers": ()}
    return Shape(**{**given, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "line", "expected"),
    [
        (shape(), b"a:b", (None, b"a:b")),
        (shape(), b"", (None, b"")),
        (shape(key=b"k"), b"v", (b"k", b"v")),
        (shape(key_separator=b":"), b"a:b:c", (b"a", b"b:c")),
        (shape(key_separator=b":"), b":", (b"", b"")),
        (shape(key_separator=b":", empty_is_null=True), b":", (None, None)),
        (shape(key=b"k", empty_is_null=True), b"", (b"k", None)),
    ],
)
def test_lines_become_records(made: Shape, line: bytes, expected: tuple[bytes | None, bytes | None]) -> None:
    assert made.record(line) == expected


def test_a_line_without_its_key_separator_is_refused() -> None:
    with pytest.raises(Refused, match="no key separator ':': 'plain'"):
        shape(key_separator=b":").record(b"plain")


@pytest.mark.parametrize(
    ("chunks", "end", "expected"),
    [
        ([b"a\nb\n"], b"\n", [b"a", b"b"]),
        ([b"a\nb"], b"\n", [b"a", b"b"]),
        ([b"a", b"b\n\n", b"c"], b"\n", [b"ab", b"", b"c"]),
        ([b"a-", b"-b--", b"--"], b"--", [b"a", b"b", b""]),
        ([], b"\n", []),
    ],
)
def test_streams_are_cut_at_the_delimiter_wherever_the_chunks_end(
    chunks: list[bytes], end: bytes, expected: list[bytes]
) -> None:
    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def collect(outcome: Outcome) -> list[bytes]:
        return [line async for line in lines(source(), end, outcome)]

    outcome = Outcome()
    assert asyncio.run(collect(outcome)) == expected
    assert outcome.bytes_read == sum(map(len, chunks))


# -- where reset-offsets moves a group to

LOG = {"log_start_offset": 10, "log_end_offset": 100}


@pytest.mark.parametrize(
    ("target", "committed", "expected"),
    [
        (Target(To.EARLIEST), 50, Move(10)),
        (Target(To.LATEST), None, Move(100)),
        (Target(To.OFFSET, 70), None, Move(70)),
        (Target(To.OFFSET, 100), 50, Move(100)),
        (Target(To.OFFSET, 101), 50, Move(100, "101 is beyond the log's end")),
        (Target(To.OFFSET, 9), 50, Move(10, "9 is before the log's start")),
        (Target(To.SHIFT, -5), 50, Move(45)),
        (Target(To.SHIFT, -41), 50, Move(10, "9 is before the log's start")),
        (Target(To.SHIFT, 51), 50, Move(100, "101 is beyond the log's end")),
        (Target(To.CURRENT), 50, Move(50)),
        (Target(To.CURRENT), None, Move(100, "nothing is committed: the log's end")),
        (Target(To.TIME, 1), 50, Move(100, "no record at or after that time: the log's end")),
    ],
)
def test_the_new_offset_stays_within_the_log(target: Target, committed: int | None, expected: Move) -> None:
    assert move(target, Place(**LOG, committed=committed)) == expected


def test_a_time_moves_to_the_first_record_from_then_on() -> None:
    assert move(Target(To.TIME, 1), Place(**LOG, at_time=33)) == Move(33)


def test_a_shift_needs_something_to_shift() -> None:
    with pytest.raises(CannotReset, match="--to-earliest"):
        move(Target(To.SHIFT, 1), Place(**LOG))
