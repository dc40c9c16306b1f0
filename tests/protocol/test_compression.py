"""The codecs against independent implementations, and the bound on what comes out of them."""

import contextlib
import gzip
import random

import aiokafka.codec
import kafka.codec
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.compression import Codec, CompressionError, DecompressedTooLarge, compress, decompress
from tests.support.memory import allocations

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]

INDEPENDENT_DECODERS = {
    Codec.GZIP: [gzip.decompress, kafka.codec.gzip_decode, aiokafka.codec.gzip_decode],
    Codec.SNAPPY: [kafka.codec.snappy_decode, aiokafka.codec.snappy_decode],
    Codec.LZ4: [lz4.frame.decompress, kafka.codec.lz4_decode, aiokafka.codec.lz4_decode],
    Codec.ZSTD: [
        lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        kafka.codec.zstd_decode,
        aiokafka.codec.zstd_decode,
    ],
}
INDEPENDENT_ENCODERS = {
    Codec.GZIP: [gzip.compress, kafka.codec.gzip_encode, aiokafka.codec.gzip_encode],
    Codec.SNAPPY: [snappy.compress, kafka.codec.snappy_encode, aiokafka.codec.snappy_encode],
    Codec.LZ4: [lz4.frame.compress, kafka.codec.lz4_encode, aiokafka.codec.lz4_encode],
    Codec.ZSTD: [
        zstandard.ZstdCompressor().compress,
        # A stream that is flushed now and then has several blocks and no content size, as Java's output stream.
        lambda data: _streamed_zstd(data),
        kafka.codec.zstd_encode,
        aiokafka.codec.zstd_encode,
    ],
}
DECODERS = [(codec, decode) for codec in COMPRESSING for decode in INDEPENDENT_DECODERS[codec]]
ENCODERS = [(codec, encode) for codec in COMPRESSING for encode in INDEPENDENT_ENCODERS[codec]]


def _streamed_zstd(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    half = len(data) // 2
    flushed = stream.compress(data[:half]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return flushed + stream.compress(data[half:]) + stream.flush()


def _sample(size: int) -> bytes:
    """Text with some entropy, so that every codec has something to do and nothing is a single run."""
    draw = random.Random(size)
    return b"".join(b"%06d %s;" % (draw.randrange(10**6), b"abc" * draw.randrange(4)) for _ in range(size // 8))


@pytest.mark.parametrize(("codec", "decode"), DECODERS)
@pytest.mark.parametrize("size", [8, 1000, 300_000])
def test_others_read_what_is_written(codec, decode, size):
    data = _sample(size)
    assert bytes(decode(compress(codec, data))) == data


@pytest.mark.parametrize(("codec", "encode"), ENCODERS)
@pytest.mark.parametrize("size", [8, 1000, 300_000])
def test_what_others_write_is_read(codec, encode, size):
    data = _sample(size)
    assert decompress(codec, encode(data)) == data


@given(data=st.binary(max_size=3000), codec=st.sampled_from(Codec))
def test_round_trip(data, codec):
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed), limit=len(data)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_000_000])
def test_sizes_around_the_buffers(codec, size):
    data = b"z" * size
    assert decompress(codec, compress(codec, data), limit=size) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [1, 100, 65_536, 200_000])
def test_one_byte_over_the_limit_is_refused(codec, size):
    with pytest.raises(DecompressedTooLarge, match=str(size - 1)):
        decompress(codec, compress(codec, b"q" * size), limit=size - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_stopped_while_it_unpacks(codec):
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    limit = 1024 * 1024
    with allocations() as peak, pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb, limit=limit)
    assert peak.bytes < len(bomb) + 3 * limit


def test_a_snappy_block_may_not_announce_more_than_the_limit():
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20, limit=1 << 20)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_truncated_anywhere_is_an_error(codec):
    packed = compress(codec, _sample(400))
    whole = decompress(codec, packed)
    # Snappy's framing has no end mark: cut between two blocks it is whole, for Java too. Here that is the header alone.
    for size in range(len(packed)):
        if codec is Codec.SNAPPY and size == 16:
            assert decompress(codec, packed[:size]) == b""
            continue
        with pytest.raises(CompressionError):
            decompress(codec, packed[:size])
    assert decompress(codec, packed) == whole


@given(codec=st.sampled_from(COMPRESSING), data=st.binary(max_size=200))
def test_garbage_is_an_error_or_bounded_bytes(codec, data):
    with contextlib.suppress(CompressionError):
        assert len(decompress(codec, data, limit=10_000)) <= 10_000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_after_the_end_are_an_error(codec):
    with pytest.raises(CompressionError):
        decompress(codec, compress(codec, b"hello") + b"\x00\x00\x00\x00\x01")


def test_gzip_members_are_joined():
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), limit=6)


def test_snappy_framing_is_that_of_java():
    packed = compress(Codec.SNAPPY, b"a" * 40_000)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    assert snappy.decompress(packed[20 : 20 + first]) == b"a" * 32_768


def test_lz4_blocks_do_not_depend_on_each_other():
    # Bit 5 of the frame's flags; the Java client refuses frames without it.
    assert compress(Codec.LZ4, _sample(1000))[4] & 0x20


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_levels_reach_the_codec(codec):
    data = _sample(50_000)
    assert len(compress(codec, data, 9)) < len(compress(codec, data, 1))
    assert decompress(codec, compress(codec, data, 9)) == data


def test_an_unknown_codec_is_an_error():
    with pytest.raises(CompressionError, match="codec 5"):
        decompress(5, b"x")
    with pytest.raises(CompressionError, match="codec 5"):
        compress(5, b"x")


def test_a_plain_number_names_a_codec():
    for codec in Codec:
        assert compress(int(codec), b"hello") == compress(codec, b"hello")
