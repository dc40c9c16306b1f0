"""Why a change cannot be made."""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a change cannot be made."""

    error_code: ErrorCode
    message: str


def code_and_message(refusal: Refusal | None) -> tuple[ErrorCode, str | None]:
    """The outcome of a change as answers give it; None was made."""
    return (ErrorCode.NONE, None) if refusal is None else refusal


def bad_request(message: str) -> Refusal:
    """A change that makes no sense as it was asked for."""
    return Refusal(ErrorCode.INVALID_REQUEST, message)
