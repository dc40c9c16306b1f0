"""The five codecs of a record batch, and decompression that cannot be made to eat the memory.

Wire forms are the Java client's: gzip; snappy in the block framing of ``SnappyOutputStream`` (read also without it, as
some clients write it); the LZ4 frame format; zstd frames. The limit on the decompressed size holds *while*
decompressing: no codec here ever produces more than ``limit`` bytes before it notices.
"""

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Final

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""The largest decompressed size of a batch, unless a caller says otherwise."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
# Most batches fit here decompressed, and a small buffer is cheaper to have than a mapping.
_SMALL_BUFFER_BYTES: Final = 64 * 1024
_GZIP_INPUT_BYTES: Final = 16 * 1024
# The most that one compressed byte can stand for: bounds the buffer, so that small batches need no large one.
_LZ4_MAX_RATIO: Final = 256
_ZSTD_MAX_RATIO: Final = 1 << 17


class CompressionError(Exception):
    """The bytes are not what the codec writes, or the codec is unknown."""


class DecompressedTooLarge(CompressionError):
    """Decompressing would have produced more bytes than allowed; it was stopped at the limit."""


class Codec(IntEnum):
    """The compression bits of a batch's attributes (KIP-98; zstd by KIP-110)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress as the Java client would; ``level`` None is the codec's default and is ignored by snappy.

    An unknown codec raises ``CompressionError``. What becomes of a level that a codec does not have is the codec's:
    ``ValueError``, ``OverflowError`` or the nearest one it has.
    """
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return deflate.compress(data) + deflate.flush()
    # Imported late: a broker that never touches a compressed batch starts without it.
    import cramjam

    if codec == Codec.SNAPPY:
        return _xerial(data, cramjam.snappy.compress_raw)
    if codec == Codec.LZ4:
        # The Java client refuses frames whose blocks depend on each other, the library's default.
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    raise CompressionError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, *, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress ``data``, at most ``limit`` bytes of it.

    Raises ``DecompressedTooLarge`` when there would be more, ``CompressionError`` for anything else that is wrong,
    trailing bytes and an unknown codec included.
    """
    if codec == Codec.NONE and len(data) <= limit:
        return bytes(data)
    return b"".join(decompressed_pieces(codec, data, limit + 1, limit=limit))


def decompressed_pieces(
    codec: int, data: Buffer, piece_bytes: int, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[bytes]:
    """Decompress in pieces of at most ``piece_bytes``, made one after the other.

    Gzip and snappy are decompressed as far as pieces are taken (snappy a block at a time); lz4 and zstd with the first.
    """
    if codec == Codec.GZIP:
        return _gunzip(data, limit, piece_bytes)
    if codec == Codec.NONE:
        if len(data) > limit:
            raise DecompressedTooLarge(f"{len(data)} bytes, more than the {limit} allowed")
        return _cut(data, len(data), piece_bytes)
    import cramjam

    if codec == Codec.SNAPPY:
        return _unsnappy(bytes(data), limit, piece_bytes)
    if codec == Codec.LZ4:
        return _decompress_into(cramjam.lz4.decompress_into, data, limit, _LZ4_MAX_RATIO, piece_bytes)
    if codec == Codec.ZSTD:
        return _decompress_into(cramjam.zstd.decompress_into, data, limit, _ZSTD_MAX_RATIO, piece_bytes)
    raise CompressionError(f"unknown compression codec {codec}")


def _cut(data: Buffer | mmap.mmap, size: int, piece_bytes: int) -> Iterator[bytes]:
    """The first ``size`` bytes, which are copied piece by piece."""
    for start in range(0, size, piece_bytes):
        yield bytes(data[start : min(start + piece_bytes, size)])


def _too_large(limit: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the batch decompresses to more than the {limit} bytes allowed")


def _gunzip(data: Buffer, limit: int, piece_bytes: int) -> Iterator[bytes]:
    """Gunzip one or more members, as Java's ``GZIPInputStream`` reads them."""
    room = limit
    # What is left of an input is copied with every piece, so it is given in small ones.
    inputs = (bytes(data[start : start + _GZIP_INPUT_BYTES]) for start in range(0, len(data), _GZIP_INPUT_BYTES))
    inflate = zlib.decompressobj(31)
    rest = next(inputs, b"")
    try:
        while True:
            piece = inflate.decompress(rest, min(piece_bytes, room + 1))
            room -= len(piece)
            if room < 0:
                raise _too_large(limit)
            if piece:
                yield piece
            rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if not rest:
                rest = next(inputs, b"")
            if inflate.eof:
                if not rest:
                    return
                inflate = zlib.decompressobj(31)
            elif not rest and not piece:
                raise CompressionError("gzip: the data ends too early")
    except zlib.error as error:
        raise CompressionError(f"gzip: {error}") from None


def _xerial(data: bytes, compress_raw: Callable[[bytes], Any]) -> bytes:
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int, piece_bytes: int) -> Iterator[bytes]:
    import cramjam

    room = limit
    for block in _snappy_blocks(data):
        # A snappy block begins with its length, so it is known before anything is allocated.
        room -= _snappy_length(block)
        if room < 0:
            raise _too_large(limit)
        try:
            piece = bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise CompressionError(f"snappy: {error}") from None
        yield from _cut(piece, len(piece), piece_bytes)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    position = len(_XERIAL_HEADER)
    end = len(data)
    if end < position:
        raise CompressionError("snappy: the data ends in its header")
    while position < end:
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > end - position:
            raise CompressionError(f"snappy: a block of {size} bytes, but {end - position} are left")
        yield data[position : position + size]
        position += size


def _snappy_length(block: bytes) -> int:
    number = 0
    for index, byte in enumerate(block[:5]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number
    raise CompressionError("snappy: a block without a length")


def _decompress_into(
    decode: Callable[[Buffer, Any], int], data: Buffer, limit: int, max_ratio: int, piece_bytes: int
) -> Iterator[bytes]:
    """Decompress into a buffer that cannot grow: a small one if that may do, else one of the largest size allowed."""
    if not len(data):
        raise CompressionError("nothing to decompress")
    size = min(limit, len(data) * max_ratio) + 1
    if size <= _SMALL_BUFFER_BYTES or len(data) <= _SMALL_BUFFER_BYTES // 4:
        small = bytearray(min(size, _SMALL_BUFFER_BYTES))
        written = _fill(decode, data, small)
        if 0 <= written <= limit:
            yield from _cut(memoryview(small), written, piece_bytes)
            return
        if len(small) == size:
            raise _too_large(limit)
    # Anonymous memory: the kernel gives a page only when something is written to it.
    with mmap.mmap(-1, size) as large:
        written = _fill(decode, data, large)
        if not 0 <= written <= limit:
            raise _too_large(limit)
        yield from _cut(large, written, piece_bytes)


def _fill(decode: Callable[[Buffer, Any], int], data: Buffer, room: Any) -> int:
    """Decompress ``data`` into ``room``; return how many bytes came out, -1 if they did not fit."""
    import cramjam

    try:
        return decode(data, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            return -1
        raise CompressionError(str(error)) from None
