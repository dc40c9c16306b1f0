"""The bodies of requests: read up to a bound, and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from ottla.observe.http.problems import Problem

MOST_JSON_BYTES = 64 << 10


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body of a request. Raises `Problem` if it is longer than that, or does not come."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                raise Problem(413, f"the body is longer than {most_bytes:,} bytes")
    except ClientDisconnect:
        raise Problem(400, "the body did not come") from None
    return body


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object that a body is. Raises `Problem`."""
    body = await read_body(request, MOST_JSON_BYTES)
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Problem(400, f"the body is no JSON object: {error}") from None
