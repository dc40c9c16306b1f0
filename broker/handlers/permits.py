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
    meter = ctx.meter
    if meter is None:
        return None
    metered = cast(MeteredContext, ctx)
    strict = ctx.api_version >= strict_since

    def ask(partitions: int) -> Refusal | None:
        if meter.mutates(metered, partitions, strict=strict):
            return None
        text = "The quota of partitions that are created and deleted is exceeded"
        return Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    return ask


def permit_by_asking(ctx: RequestContext) -> Permit | None:
    """As `permit`, for topics that come to be by asking for them: there are none yet for those who exceed a quota."""
    meter = ctx.meter
    if meter is None:
        return None
    metered = cast(MeteredContext, ctx)

    def ask(partitions: int) -> Refusal | None:
        if meter.mutates(metered, partitions, strict=True, waits=False):
            return None
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic yet")

    return ask
