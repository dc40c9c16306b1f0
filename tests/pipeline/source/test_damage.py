"""Log files that are damaged, cut off or in the way, and what becomes of the rest."""

import logging
import os
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.pipeline.source.ends_stream import samples_of
from ottla.pipeline.source.logs import DataLoss, SourceError
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import marker, transactional
from tests.pipeline.source.reading import batch_reader, ends_reader, read, read_between, rows_of, stream_reader
from tests.support.batches import build_batch

BATCHES, RECORDS = 5, 4


def batch(number: int, **options: object) -> bytes:
    """The records 4n to 4n + 3."""
    first = RECORDS * number
    records = [
        Record(timestamp_ms=1000 + first + row, key=b"k", value=b"v%d" % (first + row)) for row in range(RECORDS)
    ]
    return bytes(build_batch(records, base_offset=first, **options))  # type: ignore[arg-type]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Of Kafka's shape: segments of two, two and one batches."""
    for first, several in ((0, (0, 1)), (8, (2, 3)), (16, (4,))):
        write(tmp_path, first, b"".join(batch(number) for number in several))
    return tmp_path


def write(root: Path, first: int, data: bytes, topic: str = "t") -> None:
    (root / f"{topic}-0").mkdir(exist_ok=True)
    (root / f"{topic}-0" / f"{first:020d}.log").write_bytes(data)


def offsets(root: Path, **options: str) -> list[int]:
    return [row["offset"] for row in read(root, **{"subscribe": "t", **options})]


def test_all_of_it(directory: Path) -> None:
    assert offsets(directory) == list(range(20))
    assert [row["value"] for row in read(directory, subscribe="t")][:2] == [b"v0", b"v1"]


def test_a_part_of_it(directory: Path) -> None:
    wanted = {"startingOffsets": '{"t": {"0": 6}}', "endingOffsets": '{"t": {"0": 17}}'}
    assert offsets(directory, **wanted) == list(range(6, 17))
    assert offsets(directory, minPartitions="7", **wanted) == list(range(6, 17))
    assert offsets(directory, startingTimestamp="1009", endingTimestamp="1018") == list(range(9, 18))
    assert offsets(directory, startingTimestamp="5000") == []


def test_a_batch_whose_checksum_is_wrong_is_an_error(directory: Path) -> None:
    write(directory, 8, flipped(batch(2), 70) + batch(3))
    with pytest.raises(DataLoss, match=r"t-0: the batch at offset 8 is damaged: .*CRC.*next offset is 12; set fail"):
        offsets(directory)


def test_or_is_left_out_with_a_warning(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(directory, 8, flipped(batch(2), 70) + batch(3))
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        assert offsets(directory, failOnDataLoss="false") == [*range(8), *range(12, 20)]
    assert "the batch at offset 8 is damaged" in caplog.text


@pytest.mark.parametrize(
    "data",
    [flipped(batch(2), 10) + batch(3), flipped(batch(2), 16) + batch(3), batch(2)[:50]],
    ids=["length", "magic", "cut off"],
)
def test_behind_bytes_that_are_no_batch_the_next_segment_is_read(directory: Path, data: bytes) -> None:
    write(directory, 8, data)
    with pytest.raises(DataLoss, match="t-0: the batch at offset 8 is damaged"):
        offsets(directory)
    assert offsets(directory, failOnDataLoss="false") == [*range(8), *range(16, 20)]


def test_damage_is_told_for_a_segment_that_ends_within_a_batch(directory: Path) -> None:
    write(directory, 8, batch(2) + batch(3)[:-7])
    with pytest.raises(DataLoss, match=r"t-0: the batch at offset 12 is damaged.*ends within a batch"):
        offsets(directory)
    assert offsets(directory, failOnDataLoss="false") == [*range(12), *range(16, 20)]


@pytest.mark.parametrize("tail", [batch(5)[:-3], batch(5)[:30], bytes(4096)], ids=["batch", "header", "zeros"])
def test_a_last_write_that_was_not_finished_is_no_damage(directory: Path, tail: bytes) -> None:
    write(directory, 16, batch(4) + tail)
    assert offsets(directory) == list(range(20))


def test_an_index_that_lies_is_not_believed(directory: Path) -> None:
    index = directory / "t-0" / f"{8:020d}.index"
    index.write_bytes((7).to_bytes(4, "big") + (33).to_bytes(4, "big"))
    assert offsets(directory, startingOffsets='{"t": {"0": 15}}') == list(range(15, 20))


def test_a_compaction_that_was_interrupted_counts_when_it_was_complete(directory: Path) -> None:
    swap = directory / "t-0" / f"{0:020d}.{16:020d}.log.swap"
    swap.write_bytes(batch(3))
    (directory / "t-0" / f"{16:020d}.{20:020d}.log.cleaned").write_bytes(b"not yet")
    assert offsets(directory) == list(range(12, 20))


def test_a_compaction_of_kafka_that_was_interrupted_counts(directory: Path) -> None:
    """Kafka calls the segments ``.deleted`` that were compacted, and only then the new one ``.log``."""
    first, second = (directory / "t-0" / f"{base:020d}.log" for base in (0, 8))
    first.with_suffix(".log.swap").write_bytes(batch(1) + batch(3))
    assert offsets(directory) == [*range(4, 8), *range(12, 20)]
    for segment in (first, second):
        segment.rename(segment.with_suffix(".log.deleted"))
    assert offsets(directory) == [*range(4, 8), *range(12, 20)]


def test_a_segment_that_is_renamed_while_it_is_looked_at_is_not_left_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a running broker's cleaner does it at the end of its work."""
    whole = directory / "t-0" / f"{8:020d}.log"
    swap = whole.with_suffix(".log.swap")
    whole.rename(swap)
    listdir = os.listdir

    def and_then(path: Path) -> list[str]:
        names = listdir(path)
        if swap.exists() and path == swap.parent:
            swap.rename(whole)
        return names

    monkeypatch.setattr(os, "listdir", and_then)
    assert offsets(directory) == list(range(20))


def test_batches_larger_than_a_read(tmp_path: Path) -> None:
    big = build_batch([Record(timestamp_ms=1, value=bytes(6 << 20))], base_offset=0)
    small = build_batch([Record(timestamp_ms=1, value=b"x")], base_offset=1, codec=Codec.GZIP)
    write(tmp_path, 0, bytes(big) + bytes(small))
    assert [len(row["value"]) for row in read(tmp_path, subscribe="t")] == [6 << 20, 1]


def test_a_damaged_batch_is_a_row_of_quarantine_and_no_error_there(tmp_path: Path) -> None:
    write(tmp_path, 0, batch(0) + flipped(batch(1), 70) + batch(2), "__consumer_offsets")
    rows = read(tmp_path, decode="quarantine")
    assert {(row["log_offset"], "CRC" in row["error"]) for row in rows} >= {(4, True)}
    with pytest.raises(DataLoss, match="__consumer_offsets-0: the batch at offset 4"):
        read(tmp_path, decode="commits")


def test_a_segment_that_ends_within_a_batch_is_a_row_of_quarantine(tmp_path: Path) -> None:
    write(tmp_path, 0, batch(0) + batch(1)[:-7], "__consumer_offsets")
    write(tmp_path, 8, batch(2), "__consumer_offsets")
    (row,) = (row for row in read(tmp_path, decode="quarantine") if "damaged batch" in row["error"])
    assert (row["log_offset"], "ends within a batch" in row["error"]) == (4, True)


def test_records_that_are_not_there_any_more(directory: Path) -> None:
    (directory / "t-0" / f"{0:020d}.log").unlink()
    assert offsets(directory) == list(range(8, 20))
    with pytest.raises(DataLoss, match="offsets 3 to 8 are not there any more"):
        offsets(directory, startingOffsets='{"t": {"0": 3}}')
    assert offsets(directory, startingOffsets='{"t": {"0": 3}}', failOnDataLoss="false") == list(range(8, 20))
    with pytest.raises(DataLoss, match="the log ends at 20"):
        offsets(directory, endingOffsets='{"t": {"0": 30}}')


def test_records_that_go_while_they_are_read(directory: Path) -> None:
    strict, lenient = (batch_reader(directory, subscribe="t", failOnDataLoss=word) for word in ("true", "false"))
    parts = strict.partitions()
    (directory / "t-0" / f"{16:020d}.log").unlink()
    with pytest.raises(DataLoss, match="t-0: offsets 16 to 20 were there and are not any more"):
        [list(strict.read(part)) for part in parts]
    rows = rows_of([rows for part in parts for rows in lenient.read(part)])
    assert [row["offset"] for row in rows] == list(range(16))


def test_logs_that_were_cut_by_delete_records(directory: Path) -> None:
    (directory / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n", encoding="utf-8")
    assert offsets(directory) == list(range(10, 20))


@pytest.mark.parametrize("again", [20, 4], ids=["longer", "shorter"])
def test_transactions_of_a_topic_that_was_made_anew_are_found(tmp_path: Path, again: int) -> None:
    """What is known of the old log's transactions says nothing about the new one's."""
    write(tmp_path, 0, b"".join(batch(number) for number in range(3)))
    told = tmp_path / "t-0" / "partition.metadata"
    told.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", encoding="utf-8")
    options = {"isolation": "read_committed", "failOnDataLoss": "false", "startingOffsets": "earliest"}
    reader = stream_reader(tmp_path, subscribe="t", **options)
    reader._pause = lambda _: None
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    told.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n", encoding="utf-8")
    plain = b"".join(batch(number) for number in range(2, 2 + again // RECORDS))
    write(tmp_path, 0, transactional(7, 0, 7) + marker(7, 7, commit=False) + plain)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [row["offset"] for row in read_between(reader, start, end)] == list(range(8, 8 + again))
    reader.stop()


def test_ends_of_files_are_told_as_a_history(directory: Path) -> None:
    index = directory / "t-0" / f"{0:020d}.timeindex"
    index.write_bytes(b"".join(at.to_bytes(8, "big") + last.to_bytes(4, "big") for at, last in ((1003, 3), (1007, 7))))
    rows = read(directory, decode="ends", sampleIntervalMs="0")
    assert [(row["sample_ts"].timestamp(), row["log_end_offset"]) for row in rows] == [
        (1.003, 4),
        (1.007, 8),
        (1.011, 12),
        (1.015, 16),
        (1.019, 20),
    ]
    rolls = read(directory, decode="ends", sampleIntervalMs="100000")
    assert [row["log_end_offset"] for row in rolls] == [4, 8, 16, 20], "the first, every roll, and the end"


def test_ends_are_told_of_topics_that_are_not_internal(tmp_path: Path) -> None:
    for topic in ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__mine", "t"):
        write(tmp_path, 0, batch(0), topic)
    assert [row["topic"] for row in read(tmp_path, decode="ends")] == ["__mine", "t"], "as over TCP"


def test_ends_of_files_as_a_stream_are_told_once(directory: Path) -> None:
    reader = ends_reader(directory, sampleIntervalMs="0")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    assert [one.end for one in samples_of(first)] == [4, 8, 12, 16, 20]
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    write(directory, 20, batch(5))
    second = reader.latestOffset(first, ReadAllAvailable())
    assert [one.end for one in samples_of(second)] == [24]
    assert len(reader.partitions(first, second)) == 1
    reader.stop()


@pytest.mark.parametrize("available_now", [True, False])
def test_a_long_history_is_told_in_several_offsets(
    directory: Path, monkeypatch: pytest.MonkeyPatch, available_now: bool
) -> None:
    monkeypatch.setattr("ottla.pipeline.source.ends_stream.MOST_SAMPLES", 3)
    write(directory, 0, b"".join(batch(number) for number in range(5)), "u")
    reader = ends_reader(directory, sampleIntervalMs="1" if available_now else "0")
    if available_now:
        reader.prepareForTriggerAvailableNow()
    at, told = reader.initialOffset(), []
    while (ahead := reader.latestOffset(at, ReadAllAvailable())) != at:
        assert 0 < len(samples_of(ahead)) <= 3
        told += samples_of(ahead)
        at = ahead
    assert [[one.end for one in told if one.tp.topic == topic] for topic in "tu"] == [[4, 8, 12, 16, 20]] * 2
    reader.stop()


def test_directories_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"'path' is '/no/such', which is no directory"):
        read("/no/such", subscribe="t")
    with pytest.raises(SourceError, match=r"where no logs are; allowed: Ottla's data directory"):
        read(tmp_path, subscribe="t")


def test_offsets_of_partitions_that_are_not_read(directory: Path) -> None:
    with pytest.raises(SourceError, match="'startingOffsets' names partitions that are not read: t-4"):
        offsets(directory, startingOffsets='{"t": {"4": 3}}')
