"""Random traces of transactional producers that do anything, rightly or wrongly."""

from __future__ import annotations

from functools import partial
from random import Random

from ottla.protocol.apis import ApiKey
from tests.differential.moves import Who, some_version
from tests.differential.pairs import Move, move

STEPS = 45
ACTIONS = {"init": 6, "go on": 4, "add": 12, "verify": 3, "offsets": 4, "commit": 6, "produce": 14, "end": 14,
           "end v2": 14, "describe": 2, "read": 4}  # fmt: skip


def _who(r: Random, name: str) -> Who:
    """Mostly whoever it is now; at times a former one, or one that never was."""
    if r.random() < 0.02:
        return None
    if r.random() < 0.8:
        return name, 1, 0
    return name, r.randint(1, 4), r.choice([-1, 0, 0, 1, 2])


def _step(r: Random, name: str) -> Move:
    who = _who(r, name)
    partitions = {"@t": r.sample([0, 1], r.randint(1, 2))}

    version = partial(some_version, r)
    match r.choices(list(ACTIONS), list(ACTIONS.values()))[0]:
        case "init":
            return move("init", name=name, version=version(ApiKey.INIT_PRODUCER_ID))
        case "go on":
            return move("init", name=name, version=version(ApiKey.INIT_PRODUCER_ID, least=3), expected=who)
        case "add":
            return move("add", name=name, who=who, partitions=partitions, version=version(ApiKey.ADD_PARTITIONS_TO_TXN))
        case "verify":
            return move("add", name=name, who=who, partitions=partitions, version=r.randint(4, 5), verify=True)
        case "offsets":
            return move("add_offsets", name=name, who=who, version=version(ApiKey.ADD_OFFSETS_TO_TXN))
        case "commit":
            return move("commit_offsets", name=name, who=who, topic="@t", offset=r.randrange(100),
                        version=version(ApiKey.TXN_OFFSET_COMMIT))  # fmt: skip
        case "produce":
            # What an old producer tried can stop the new one in Kafka: see docs/differences.md.
            row = ("@t", r.randrange(2), {"who": (name, 1, 0), "transactional": True, "now": True})
            return move("produce", rows=[row], version=version(ApiKey.PRODUCE, least=9), name=name)
        case "describe":
            return move("describe_transaction", name=name)
        case "read":
            return _look(r.randrange(2), r.randrange(2))
        case end:
            at = 5 if end == "end v2" else r.randint(0, 4)
            return move("end", name=name, who=who, version=at, commit=r.random() < 0.6)


def _look(partition: int, isolation: int) -> Move:
    return move("read", rows=[("@t", {"partition": partition, "fetch_offset": 0})], version=11, isolation=isolation)


def transactions(r: Random) -> list[Move]:
    names = ["@a", "@b"][: r.choice([1, 1, 2])]
    moves = [_step(r, r.choice(names)) for _ in range(STEPS)]
    moves += [_look(partition, isolation) for partition in (0, 1) for isolation in (0, 1)]
    return [*moves, *(move("describe_transaction", name=name) for name in names)]
