"""Bugs planted in compaction, each of which the model has to find within some games."""

import types
from pathlib import Path

import pytest

from ottla.broker.core.cleaning import compaction
from ottla.protocol import batch_filter
from ottla.protocol.records import BatchError
from tests.core.cleaning.games import play, play_with_little_memory

GAMES = 60

BUGS = {
    "the last record of a key goes": ("record.offset < find(record.key)", "record.offset <= find(record.key)"),
    "older records of a key stay": ("record.offset < find(record.key)", "False"),
    "records without a key stay": ("if record.key is None or", "if record.key is not None and"),
    "tombstones go at once": ("if record.is_tombstone and tombstones_go:", "if record.is_tombstone:"),
    "tombstones never go": ("if record.is_tombstone and tombstones_go:", "if False:"),
    "tombstones go before their horizon": ("horizon_ms is not None and horizon_ms <= self._wall_ms\n        find",
                                           "horizon_ms is not None\n        find"),
    "the horizon moves with every round": ("undecided = delete_horizon(header) is None and any(", "undecided = any("),
    "the horizon is now": (
        "self._horizon_ms = min(wall_ms + delete_retention_ms, INT64_MAX)", "self._horizon_ms = wall_ms"
    ),
    "aborted records stay": ("        if is_aborted:\n", "        if False:\n"),
    "aborted records hide earlier ones": ("elif not self._transactions.is_aborted(header):", "else:"),
    "an aborted transaction has no end": ("if header.base_offset < last_offset:", "if last_offset >= 0:"),
    "a transaction is forgotten after its first batch": (
        "self._ongoing[header.producer_id] = last_offset, True", "del self._ongoing[header.producer_id]"
    ),
    "markers go before their records": ("if not is_idle or horizon_ms is not None:", "if horizon_ms is not None:"),
    "markers go at once": ("if is_idle and horizon_ms is not None and horizon_ms <= self._wall_ms:", "if is_idle:"),
    "markers never go": ("if is_idle and horizon_ms is not None and horizon_ms <= self._wall_ms:", "if False:"),
    "a commit is idle at once": ("return not had_batches", "return True"),
    "the last batch of a producer goes": ("return header.last_offset == last.last_offset", "return False"),
    "the last marker of a producer goes": (
        "return header.is_control and header.producer_epoch == last.producer_epoch", "return False"
    ),
    "the end of what is compacted goes": ("or header.last_offset == self._last_offset", ""),
    "any marker of a producer stays": (
        "return header.is_control and header.producer_epoch == last.producer_epoch", "return header.is_control"
    ),
    "what has not been looked at is judged": ("if record.offset <= latest_offset:", "if True:"),
    "a batch loses its end": ("record_count=len(kept)", "record_count=len(kept), last_offset_delta=len(kept) - 1"),
    "the largest timestamp stays": ("max_timestamp = max(newest_ms, NO_TIMESTAMP)", "pass"),
    "the broker's timestamps are taken for the producer's": (
        "if header.timestamp_type is TimestampType.CREATE_TIME:", "if True:"
    ),
    "timestamps shift with the horizon": (
        "records = b\"\".join([_shifted(body, record, base_timestamp) for record in kept])",
        "records = b\"\".join([body[record.start : record.end] for record in kept])",
    ),
    "the horizon is not written": ("attributes |= DELETE_HORIZON_BIT", "pass"),
    "an empty batch is compressed": ("header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)", "header.attributes"),
}  # fmt: skip


def planted(old, new):
    """Copies of the two modules with a bug in one of them; the first is returned."""
    sources = [Path(module.__file__).read_text() for module in (batch_filter, compaction)]
    assert sum(source.count(old) for source in sources) == 1, old
    modules = []
    for original, source in zip((batch_filter, compaction), sources, strict=True):
        module = types.ModuleType(original.__name__)
        exec(compile(source.replace(old, new), original.__file__, "exec"), vars(module))
        modules.append(module)
    copy, code = modules
    for name in ("delete_horizon", "stored_records", "with_records", "without_records"):
        setattr(code, name, getattr(copy, name))
    return code


def survives(code):
    try:
        for seed in range(GAMES):
            play(seed, rounds=7, code=code)
            play_with_little_memory(seed, code)
            play_with_little_memory(seed, code, pause_ms=10)
    except (AssertionError, BatchError, ValueError, KeyError):
        return False
    return True


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug):
    assert not survives(planted(*BUGS[bug]))


def test_nothing_is_found_where_nothing_is_planted():
    assert survives(planted("STEP_RECORDS = 400", "STEP_RECORDS = 2"))
