"""Errors of HTTP as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"


class ProblemDetails(msgspec.Struct, omit_defaults=True):
    """The body of every answer that is an error.

    Attributes:
        type: always ``about:blank``: ``status`` says it all.
        title: the status in words; detail: what is wrong with this request.
    """

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class Problem(Exception):
    """A request that gets no answer but this."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """The answer that says what is wrong."""
    body = ProblemDetails(HTTPStatus(status).phrase, status, detail)
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)
