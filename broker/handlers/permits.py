"""May a client create and delete partitions now (KIP-599)?"""

from __future__ import annotations

from typing import cast

from ottla.broker.context import MeteredContext, RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.topics.catalog import Permit
from ottla.protocol.errors import ErrorCode


def permit(ctx: RequestContext, strict_since: int) -> Permit | None:
    """Asks the quota of whoever sent a request; None where there is none.

    Args:
        strict_since: from this version of the request on, clients can be refused. Older ones are served, and wait.
    """
    text = "The quota of partitions that are created and deleted is exceeded"
    return _asking(ctx, Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text), strict=ctx.api_version >= strict_since)


def permit_by_asking(ctx: RequestContext) -> Permit | None:
    """As `permit`, for topics that come to be by asking for them: there are none yet for those who exceed a quota."""
    return _asking(ctx, Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic yet"), waits=False)


def _asking(ctx: RequestContext, refusal: Refusal, *, strict: bool = True, waits: bool = True) -> Permit | None:
    meter = ctx.meter
    if meter is None:
        return None
    metered = cast(MeteredContext, ctx)
    return lambda partitions: None if meter.mutates(metered, partitions, strict=strict, waits=waits) else refusal
