"""The pure parts of the commands: formats, subjects, tables, starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import click
import pytest

from ottla.cli.common import _sentence, names, topic_partitions
from ottla.cli.consume import as_json
from ottla.cli.escapes import compile_format, unescape
from ottla.cli.group_words import partitions_in_words
from ottla.cli.output import Refused, Styled, duration, plain
from ottla.cli.produce import Outcome, Shape, lines
from ottla.cli.silence import Silence
from ottla.cli.starts import Start, parse_start
from ottla.clients import ConsumerRecord
from ottla.protocol.records import TimestampType


def record(key: bytes | None = b"k", value: bytes | None = b"val", headers: tuple = ()) -> ConsumerRecord:
    return ConsumerRecord("orders", 2, 41, 1_700_000_000_123, TimestampType.CREATE_TIME, key, value, headers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t/%p/%o\n", b"orders/2/41\n"),
        (r"%k\t%s", b"k\tval"),
        ("%K %S %T", b"1 3 1700000000123"),
        ("100%% %h", b"100% a=1,b=NULL"),
        (r"\x1f\\%s\0", b"\x1f\\val\x00"),
        ("", b""),
        ("ä", "ä".encode()),
    ],
)
def test_formats_are_kcats(text: str, expected: bytes) -> None:
    assert compile_format(text)(record(headers=(("a", b"1"), ("b", None)))) == expected


def test_null_is_printed_as_nothing_with_the_length_minus_one() -> None:
    assert compile_format("[%k|%s] %K %S")(record(None, None)) == b"[|] -1 -1"


@pytest.mark.parametrize(
    ("text", "complaint"), [("%x", "%x in '%x' means nothing"), ("50%", "single %"), (r"\q", "is no escape")]
)
def test_a_format_that_means_nothing_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        compile_format(text)


def test_percent_signs_in_separators_are_themselves() -> None:
    assert unescape(r"%s\t%") == b"%s\t%"


def test_a_record_as_json_keeps_bytes_that_are_no_text() -> None:
    import json

    row = json.loads(as_json(record(b"\xff", None, (("h", b"x"),))))
    assert row == {
        "topic": "orders", "partition": 2, "offset": 41, "timestamp": 1_700_000_000_123,
        "key_base64": "/w==", "value": None, "headers": [{"name": "h", "value": "x"}],
    }  # fmt: skip
    assert as_json(record(value="zwölf\n".encode())).count(b"\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("orders", ("orders", None)), ("orders:0,2", ("orders", [0, 2])), ("a:2-4,3,0", ("a", [0, 2, 3, 4]))],
)
def test_topics_with_partitions(text: str, expected: tuple[str, list[int] | None]) -> None:
    assert topic_partitions(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:x", "orders:-1", "orders:1,,2", "orders:٣"])
def test_partitions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="TOPIC:PARTITION"):
        topic_partitions(text)


def test_subjects_come_from_arguments_and_options_each_once() -> None:
    assert names(("a", "b"), ("b", "c"), "topic") == ["a", "b", "c"]
    with pytest.raises(click.UsageError, match="--topic"):
        names((), (), "topic")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Start("earliest")),
        ("beginning", Start("earliest")),
        ("end", Start("latest")),
        ("0", Start("at", 0)),
        ("-10", Start("last", 10)),
        ("@1970-01-01T00:00:01", Start("time", 1000)),
        ("s@1234", Start("time", 1234)),
    ],
)
def test_starts(text: str, expected: Start) -> None:
    assert parse_start(text) == expected


@pytest.mark.parametrize("text", ["", "x", "1.5", "@", "@soon", "--1"])
def test_starts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--offset"):
        parse_start(text)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create topic 'a': no", "Create topic 'a': no."),
        ("nf-0: the batch is corrupt", "Topic 'nf', partition 0: the batch is corrupt."),
        ("my.topic-1-12: no: more!", "Topic 'my.topic-1', partition 12: no: more!"),
        ("broker 1-x: no", "Broker 1-x: no."),
    ],
)
def test_failures_are_sentences_that_leave_names_as_they_are(text: str, expected: str) -> None:
    assert _sentence(text) == expected


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
