"""The hash by which a group sees that its topics have changed (R3.26-R3.28).

XXH3 comes from the package ``xxhash``, as own code in Python would take a tenth of a second for a topic of 10,000
partitions with racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack
from uuid import UUID

from ottla.protocol.groups import utf16_order

_VERSION = b"\0"


def topic_hash(topic_id: UUID, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of one topic, as a signed integer of 64 bits.

    Args:
        racks: for each partition the racks of its replicas, in any order; a replica without a rack is left out.
    """
    from xxhash import xxh3_64_intdigest  # here: most brokers have no consumer groups, and all of them have to start

    units = name.encode("utf-16-le")
    parts = [
        _VERSION,
        pack("<QQ", topic_id.int >> 64, topic_id.int & (1 << 64) - 1),
        units,
        pack("<ii", len(units) // 2, len(racks)),
    ]
    for partition, of_replicas in enumerate(racks):
        parts.append(pack("<i", partition))
        for rack in sorted(of_replicas, key=utf16_order):
            units = rack.encode("utf-16-le")
            length = pack("<i", len(units) // 2)
            parts += (length, units, length)
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(topics: Mapping[str, int]) -> int:
    """The hash of all topics that a group subscribes to and that exist: from the hash of each, by name.

    It is 0 where there is none.
    """
    from xxhash import xxh3_64_intdigest

    hashes = [topics[name] for name in sorted(topics, key=utf16_order)]
    return _signed(xxh3_64_intdigest(pack(f"<{len(hashes)}q", *hashes))) if hashes else 0


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
