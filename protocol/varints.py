"""Zigzag varints as record batches use them (Kafka's ``ByteUtils``; protobuf's encoding).

Readers take at most five bytes for an int32 and ten for an int64, so a run of 0x80 bytes costs a bounded walk.
They raise ``IndexError`` at the end of the buffer and ``ValueError`` for a number that is too long or too large:
the record code turns both into one error of its own.
"""

from typing import Final

_LOW: Final = [bytes((number | 0x80,)) for number in range(0, 128, 2)]
_HIGH: Final = [bytes((number,)) for number in range(1, 128)]
# Lengths, offset deltas and timestamp deltas are nearly always small and not negative: one lookup encodes those of one
# byte or two.
_TABLE: Final = (*(bytes((number,)) for number in range(0, 128, 2)), *[low + high for high in _HIGH for low in _LOW])
_TABLE_SIZE: Final = len(_TABLE)


def _encode(unsigned: int) -> bytes:
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """The zigzag varint of ``value``, an int32 or int64 (the encoding does not tell them apart)."""
    if 0 <= value < _TABLE_SIZE:
        return _TABLE[value]
    return _encode(value << 1 if value >= 0 else (-value << 1) - 1)


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read an int32 at ``position``; return it and the position after it."""
    number = data[position]
    if number < 0x80:
        return (number >> 1) ^ -(number & 1), position + 1
    byte = data[position + 1]
    if byte < 0x80:
        number += (byte - 1) << 7
        return (number >> 1) ^ -(number & 1), position + 2
    return _read_long(data, position, 5, 0xFFFFFFFF)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Read an int64 at ``position``; return it and the position after it."""
    return _read_long(data, position, 10, 0xFFFFFFFFFFFFFFFF)


def _read_long(data: bytes | bytearray | memoryview, position: int, most_bytes: int, largest: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * most_bytes:
            raise ValueError(f"varint longer than {most_bytes} bytes")
    if number > largest:
        raise ValueError(f"varint larger than {largest.bit_length()} bits")
    return (number >> 1) ^ -(number & 1), position
