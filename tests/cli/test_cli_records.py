"""`ottla produce` and `ottla consume`, as processes with real pipes."""

from __future__ import annotations

import os
import pty
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import BrokerProcess
from tests.cli.commands import Ottla

DATA = b"a:1\nb:2\n\xff:\xfe\n"


def until(stream: Any, wanted: bytes, timeout_s: float = 30) -> bytes:
    """Read until ``wanted`` was seen."""
    seen = b""
    while wanted not in seen:
        readable, _, _ = select.select([stream], [], [], timeout_s)
        assert readable, seen
        data = os.read(stream if isinstance(stream, int) else stream.fileno(), 4096)
        assert data, seen
        seen += data
    return seen


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_byte_for_byte(ottla: Any, codec: str) -> None:
    ottla.send("orders", DATA, "-p", "1", "-z", codec)
    done = ottla.run("consume", "orders", "--from-beginning", "--exit")
    assert done.stdout_bytes == DATA
    assert done.stderr == "3 records; the end of the log.\n"


def test_pipes_are_read_and_written(ottla: Any) -> None:
    done = ottla.process("produce", "orders", "-p", "0", given=DATA)
    assert done.stderr.startswith(b"3 records sent to 'orders' in ")
    assert ottla.process("consume", "orders", "--from-beginning", "-c", "3").stdout == DATA


def test_keys_headers_and_places_are_kept(ottla: Any) -> None:
    ottla.send("orders", b"a:1\nb:\n", "-p", "2", "-K", ":", "-H", "source=test", "-H", "n=")
    text = ottla.read("orders:2", "-o", "0", "-c", "2", "-f", r"%t/%p/%o %k=%s %h\n")
    assert text == b"orders/2/0 a=1 source=test,n=\norders/2/1 b= source=test,n=\n"


def test_files_and_delimiters(ottla: Any, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a;b;")
    (tmp_path / "two").write_bytes(b"c;;d")
    files = [str(tmp_path / name) for name in ("one", "two")]
    done = ottla.run("produce", "-t", "orders", *files, "-D", ";", "-p", "0", "-k", "key", "--null")
    assert done.stderr.startswith("5 records sent to 'orders'")
    rows = ottla.lines("consume", "orders", "--from-beginning", "-e")
    assert [(row["key"], row["value"]) for row in rows] == [("key", value) for value in ("a", "b", "c", None, "d")]


@pytest.mark.parametrize("acks", ["0", "1", "-1", "all"])
def test_acks(ottla: Any, acks: str) -> None:
    ottla.send("orders", b"x\n", "-p", "0", "--acks", acks)
    assert ottla.read("orders", "--from-beginning", "-c", "1", "--timeout", "30s") == b"x\n"


def test_where_to_begin(ottla: Any) -> None:
    ottla.send("orders", b"0\n1\n2\n3\n4\n", "-p", "0")
    for start, expected in (
        ("earliest", b"01234"), ("3", b"34"), ("-2", b"34"), ("-99", b"01234"), ("99", b""), ("@0", b"01234"),
        ("@2199-01-01", b""), ("latest", b""),
    ):  # fmt: skip
        assert ottla.read("orders", "-p", "0", "-o", start, "-e", "-f", "%s", "-q") == expected, start


def test_a_group_goes_on_where_it_stopped(ottla: Any) -> None:
    ottla.send("orders", b"0\n1\n2\n3\n4\n", "-p", "0")
    first = ottla.run("consume", "orders", "-G", "billing", "--from-beginning", "-c", "2")
    assert first.stdout == "0\n1\n"
    assert "Assigned in generation 1: orders 0, 1, 2" in first.stderr
    assert ottla.read("orders", "-G", "billing", "-c", "2") == b"2\n3\n"
    assert ottla.read("orders", "-G", "billing", "-e") == b"4\n"


@pytest.mark.parametrize(("bad", "before"), [(0, ""), (1, "a\n"), (2, "a\nb\n")])
def test_a_group_does_not_pass_over_a_damaged_batch(
    ottla: Any, monkeypatch: pytest.MonkeyPatch, bad: int, before: str
) -> None:
    """It is told, what was before it is printed, and what is committed is where it begins."""
    from ottla.clients import fetcher
    from ottla.protocol.records import iter_batches

    for line in (b"a\n", b"b\n", b"c\n"):
        ottla.send("orders", line, "-p", "0")

    class Damaged(fetcher.FetchedPartition):
        def __init__(self, state: Any, data: Any, **options: Any) -> None:
            seen = bytearray(data)
            for header, view in iter_batches(data):
                if header.base_offset == bad:
                    seen[bytes(data).index(bytes(view)) + header.size - 2] ^= 1
            super().__init__(state, bytes(seen), **options)

    monkeypatch.setattr(fetcher, "FetchedPartition", Damaged)
    for printed in (before, ""):
        done = ottla.run("consume", "orders", "-G", "billing", "--from-beginning", "--exit", expect=1)
        assert done.stdout == printed, "a second run stands where the first one stopped"
        assert f"Topic 'orders', partition 0: the batch at offset {bad} is corrupt" in done.stderr
    monkeypatch.undo()
    rest = ["a\n", "b\n", "c\n"][bad:]
    assert ottla.run("consume", "orders", "-G", "billing", "--from-beginning", "--exit").stdout == "".join(rest)


def test_too_few_records_in_time_are_a_failure(ottla: Any) -> None:
    ottla.send("orders", b"only\n")
    done = ottla.run("consume", "orders", "--from-beginning", "-c", "2", "--timeout", "300ms", expect=1)
    assert "of 2 records came in time." in done.stderr
    assert "nothing more came" in ottla.run("consume", "orders", "--timeout", "0.1s").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_what_was_printed_is_committed(ottla: Any, number: signal.Signals) -> None:
    ottla.send("orders", b"first\n", "-p", "0")
    process = ottla.spawn("consume", "orders", "-G", "billing", "--from-beginning", stdout=-1, stderr=-1)
    assert until(process.stdout, b"\n") == b"first\n"
    process.send_signal(number)
    _, notes = process.communicate(timeout=30)
    assert process.returncode == 0 and b"1 record; stopped." in notes
    (group,) = ottla.json("groups", "describe", "billing")
    assert (group["state"], group["lag"]) == ("Empty", 0)


def test_a_reader_that_goes_away_ends_it_quietly(ottla: Any) -> None:
    ottla.send("orders", b"first\n")
    process = ottla.spawn("consume", "orders", "--from-beginning", "-q", stdout=-1, stderr=-1)
    assert until(process.stdout, b"\n") == b"first\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("words", [("consume",), ("consume", "-G", "billing"), ("produce",)])
def test_an_outage_is_told_and_its_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    with BrokerProcess(tmp_path, topics={"orders": 1}) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        process = ottla.spawn(*words, "orders", stdin=-1, stdout=-1, stderr=-1)
        assert process.stdin is not None
        if words == ("produce",):
            process.stdin.write(b"a\n")
            process.stdin.flush()
            assert ottla.spawn("consume", "orders", "--from-beginning", "-c", "1", stdout=-1).communicate()[0] == b"a\n"
        else:
            until(process.stderr, b"\n")
        broker.kill()
        if words == ("produce",):
            process.stdin.write(b"b\n")
            process.stdin.flush()
        said = until(process.stderr, b"still trying.\n")
        assert b"No broker answers at %s; still trying.\n" % ottla.bootstrap.encode() in said
        broker.restart()
        assert b"Connected again.\n" in until(process.stderr, b"Connected again.\n")
        if words == ("produce",):
            _, said = process.communicate(timeout=30)
            assert said.startswith(b"2 records sent to 'orders'")
        else:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert said.endswith(b"0 records; stopped.\n")
        assert process.returncode == 0


def test_a_line_typed_at_a_terminal_is_sent_at_once(ottla: Any) -> None:
    ours, theirs = pty.openpty()
    process = ottla.spawn("produce", "orders", stdin=theirs, stdout=-1, stderr=-1)
    os.close(theirs)
    assert b"Ctrl-D ends" in until(process.stderr, b"\n")
    os.write(ours, b"hello\n")
    assert ottla.read("orders", "--from-beginning", "-c", "1", "--timeout", "30s") == b"hello\n"
    os.write(ours, b"\x04")
    _, notes = process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 0 and b"1 record sent to 'orders'" in notes


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["produce", "orders", "-p", "9"], "has no partition 9: it has 0 to 2."),
        (["produce", "orders", "-K", ":"], "no key separator ':'"),
        (["produce", "not a topic"], "Cannot look up topic 'not a topic': a topic's name is 1 to 249 letters"),
        (["consume", "nope"], "There is no topic 'nope'."),
        (["consume", "orders:0,9"], "has no partition 9: it has 0 to 2."),
    ],
)
def test_refused_commands(ottla: Any, tmp_path: Path, words: list[str], complaint: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    files = [tmp_path / "file"] if words[0] == "produce" else []
    assert complaint in ottla.run(*words, *files, expect=1).stderr


def test_consuming_a_missing_topic_does_not_create_it(ottla: Any) -> None:
    ottla.run("consume", "nope", "-G", "billing", expect=1)
    assert [row["topic"] for row in ottla.json("topics", "list", "--exclude-internal")] == ["orders"]


def test_produce_fails_when_the_broker_refuses_the_records(ottla: Any, tmp_path: Path) -> None:
    ottla.run("topics", "create", "small", "--config", "max.message.bytes=100")
    (tmp_path / "file").write_bytes(b"x" * 500)
    done = ottla.run("produce", "small", str(tmp_path / "file"), expect=1)
    assert "1 of 1 records were not delivered" in done.stderr and "message too large" in done.stderr
