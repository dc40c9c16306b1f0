"""The choice of a record's partition: by the key's murmur2 hash, as Kafka's producers do; keyless records stick.

Keyless records stay with one partition until a batch's worth of bytes went there, then move to another chosen at
random (KIP-480, KIP-794): batches are larger than with a random choice for each record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of ``data``, as an unsigned integer."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = (int.from_bytes(data[position : position + 4], "little") * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        value = ((value * _M) & _MASK) ^ k
    if whole != length:
        value = ((value ^ int.from_bytes(data[whole:], "little")) * _M) & _MASK
    value = ((value ^ (value >> 13)) * _M) & _MASK
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that Kafka's producers choose for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class DefaultPartitioner:
    """Keyed records by murmur2, keyless ones sticky.

    Args:
        sticky_bytes: bytes for one partition before keyless records move on (the producer's max_batch_size).
        choose: picks one of several partitions; ``random.choice`` unless told.
    """

    def __init__(self, sticky_bytes: int = 16384, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self.sticky_bytes = sticky_bytes
        self._choose = choose
        self._sticky: dict[str, tuple[int, int]] = {}

    def partition(
        self, topic: str, key: bytes | None, size: int, all_partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """The partition for a record of ``size`` bytes. ``available`` are those with a leader; it may be empty."""
        if key is not None:
            return all_partitions[partition_for_key(key, len(all_partitions))]
        candidates = available or all_partitions
        partition, spent = self._sticky.get(topic, (-1, 0))
        if partition not in candidates:
            partition, spent = self._choose(candidates), 0
        elif spent >= self.sticky_bytes:
            others = [other for other in candidates if other != partition] or candidates
            partition, spent = self._choose(others), 0
        self._sticky[topic] = (partition, spent + size)
        return partition
