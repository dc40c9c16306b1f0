"""The last offset of every key, in bounded memory."""

from __future__ import annotations

from hashlib import blake2b

ENTRY_BYTES = 200
"""Bytes that an entry takes, roughly: the dict's slot, the key's bytes object, the number."""
_DIGEST_BYTES = 16


class KeyOffsets:
    """Keys and the largest offset of each. Long keys are kept as digests of 128 bits, as Kafka keeps all of them.

    Attributes:
        latest_offset: everything up to here has been looked at; -1 before.
    """

    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        self._capacity = max(buffer_bytes // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note a key; offsets of the same key rise."""
        self._offsets[_short(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 if it has none."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    # A key shorter than a digest cannot be taken for one.
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
