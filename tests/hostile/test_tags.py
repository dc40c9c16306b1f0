"""Tagged fields that nobody knows may be in every request, in any number as Kafka reads them (KIP-482)."""

from __future__ import annotations

import struct
import time

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.headers import MAX_HEADER_TAGS, skip_tags
from tests.hostile.costly_frames import costly_bodies, tags
from tests.hostile.victim import Victim
from tests.support.peer import Peer

MANY = 4 << 20
"""Two bytes each: 8 MiB. Each took half a microsecond, and nobody else was served meanwhile."""


def request_with(header_tags: bytes, body: bytes, key: ApiKey, version: int) -> bytes:
    """A frame in which all is right but the number of its tags."""
    header = struct.pack(">hhih", key, version, 7, -1) + header_tags
    return struct.pack(">i", len(header) + len(body)) + header + body


def body_with_tags(key: ApiKey, version: int, count: int) -> bytes:
    return dict(costly_bodies(api(key).request.layout(version), count))["tags"]


@pytest.mark.e2e
def test_a_flood_of_tags_closes_its_connection_and_delays_nobody() -> None:
    floods = [
        request_with(tags(MANY), b"", ApiKey.API_VERSIONS, 4),
        request_with(tags(MANY), b"", ApiKey.PRODUCE, 9),
        request_with(b"\0", body_with_tags(ApiKey.PRODUCE, 9, MANY), ApiKey.PRODUCE, 9),
        request_with(b"\0", body_with_tags(ApiKey.METADATA, 9, MANY), ApiKey.METADATA, 9),
    ]
    with Victim() as victim:
        with victim.calm() as felt:
            before_s = victim.cpu_s()
            for flood in floods:
                with Peer(victim.port) as peer:
                    try:
                        peer.raw(flood)
                    except OSError:
                        continue  # it was closed before all of it was sent
                    assert peer.is_closed()
            used_s = victim.cpu_s() - before_s
        assert "Closing connection" in victim.log_text()
    assert used_s < 3
    assert felt.longest_ms < 1_200


def test_tags_of_headers() -> None:
    body = b"body"
    section = tags(MAX_HEADER_TAGS)
    assert skip_tags(section + body, 0) == len(section)
    flood = tags(MANY)
    began = time.process_time()
    with pytest.raises(MalformedFrame, match="header tags, allowed are"):
        skip_tags(flood, 0)
    assert time.process_time() - began < 0.1
