"""Why a change cannot be made."""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import ErrorCode


class Refusal(NamedTuple):
    """Why a change cannot be made."""

    error_code: ErrorCode
    message: str
