"""Random traces of topics: made, grown, configured, looked at and deleted, rightly or wrongly."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.moves import some_version
from tests.differential.pairs import Move, move

STEPS = 25
NAMES = ("@a", "@a", "@b", "@c")
ODD = ("@absent", "@bad name", "@" + "x" * 250, "@é", "")
CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "5000"),
    ("retention.ms", "-2"),
    ("retention.ms", "x"),
    ("retention.bytes", "-1"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "shrink"),
    ("max.message.bytes", "1000"),
    ("max.message.bytes", "-1"),
    ("segment.ms", "600000"),
    ("segment.bytes", "1048576"),
    ("compression.type", "gzip"),
    ("compression.type", "rar"),
    ("min.compaction.lag.ms", "7"),
    ("max.compaction.lag.ms", "5"),
    ("message.timestamp.type", "LogAppendTime"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("preallocate", "true"),
    ("nonsense", "1"),
    ("retention.ms", None),
)
KEYS = sorted({key for key, _ in CONFIGS} - {"nonsense"})


def _name(r: Random, odd: float = 0.15) -> str:
    return r.choice(ODD) if r.random() < odd else r.choice(NAMES)


def _create(r: Random) -> Move:
    rows: dict[str, tuple[int, int, dict[str, str | None]]] = {}
    for _ in range(r.choice([1, 1, 1, 2])):
        configs = dict(r.choice(CONFIGS) for _ in range(r.choice([0, 0, 1, 2])))
        rows[_name(r)] = (r.choice([1, 2, 3, -1, -1, 0, -2]), r.choice([1, 1, 1, -1, -1, 2, 0]), configs)
    named = [(name, *row) for name, row in rows.items()]
    if r.random() < 0.05:
        named.append(named[0])  # named twice
    return move("create", rows=named, version=some_version(r, ApiKey.CREATE_TOPICS), only_check=r.random() < 0.2)


def _grow(r: Random) -> Move:
    counts = {_name(r): r.choice([2, 3, 4, 5, 6, 1, 0, -1]) for _ in range(r.choice([1, 1, 2]))}
    version = some_version(r, ApiKey.CREATE_PARTITIONS)
    return move("grow", counts=list(counts.items()), version=version, only_check=r.random() < 0.2)


def _delete(r: Random) -> Move:
    names = [_name(r) for _ in range(r.choice([1, 1, 1, 2]))]
    return move("delete_topics", names=names, version=some_version(r, ApiKey.DELETE_TOPICS), by_id=r.random() < 0.3)


def _metadata(r: Random) -> Move:
    version = some_version(r, ApiKey.METADATA)
    names: list[str] | None = [_name(r) for _ in range(r.choice([1, 1, 2, 0]))]
    if version < 4:  # asking creates
        names = ["@bad name"]
    elif r.random() < 0.2:
        names = None
    fields: dict[str, Any] = {"by_id": version >= 12 and r.random() < 0.4, "operations": r.random() < 0.2}
    return move("metadata", names=names, version=version, **fields)


def _configs(r: Random) -> Move:
    keys = None if r.random() < 0.2 else r.sample(KEYS, r.randint(0, 3))
    version = some_version(r, ApiKey.DESCRIBE_CONFIGS)
    return move("configs", name=_name(r), keys=keys, version=version, synonyms=r.random() < 0.3)


def _alter(r: Random) -> Move:
    changes = [(key, r.choice([0, 0, 0, 1, 2, 3]), value) for key, value in r.sample(CONFIGS, r.choice([1, 1, 2]))]
    version = some_version(r, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    return move("alter", name=_name(r), changes=changes, version=version, only_check=r.random() < 0.2)


def _pages(r: Random) -> Move:
    names = [name for name in (_name(r) for _ in range(r.randint(1, 3))) if name]
    cursor = r.choice([None, None, (_name(r, 0), r.randrange(4))])
    return move("pages", names=names or ["@a"], limit=r.choice([2000, 1, 2, 3, 0]), cursor=cursor)


ACTS = [_create] * 6 + [_grow] * 3 + [_delete] * 2 + [_metadata] * 4 + [_configs] * 3 + [_alter] * 3 + [_pages] * 2


def topics(r: Random) -> list[Move]:
    moves = [_create(r), *(r.choice(ACTS)(r) for _ in range(STEPS))]
    moves.append(move("metadata", names=["@a", "@b", "@c"], version=12, by_id=False, operations=False))
    return [*moves, *(move("configs", name=name, keys=None, version=4, synonyms=False) for name in ("@a", "@b"))]
