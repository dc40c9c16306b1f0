"""The partitions that a request names: those that do not exist, and those of which a node must be sure first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.topics.partition import Partition
from ottla.broker.handlers import OF_THE_CATALOG, OF_WHAT_IS_LED
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode


def missing_partitions(topics: TopicManager, named: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ErrorCode]:
    """Topic name and partition → UNKNOWN_TOPIC_OR_PARTITION, of those that do not exist."""
    return {
        (name, partition): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, partition in named
        if not 0 <= partition < topics.partition_count(name)
    }


def of_several(route: Any, key: ApiKey, go_on: Callable[..., None]) -> Any:
    """The route of an API at a node that is not alone: it looks first where others may know more.

    Args:
        route: as it is at a node that is alone.
        go_on: serves a request by a route, with an answer through its context.
    """
    shows, names = key in OF_THE_CATALOG, route.handler.names
    if key in OF_WHAT_IS_LED:
        route = replace(route, handle=when_sure(route.handle, partial(go_on, route)))
    if shows or names is not None:
        again, names = partial(go_on, route), names or (lambda request, ctx: ())
        route = replace(route, handle=after_a_look(route.handle, names, again, of_the_catalog=shows))
    return route


def after_a_look(
    handle: Callable[[Any, RequestContext, Any], Any],
    names: Callable[[Any, RequestContext], Iterable[str | UUID]],
    again: Callable[[Any, RequestContext], None],
    *,
    of_the_catalog: bool,
) -> Callable[[Any, RequestContext, Any], Any]:
    """A handler for a node of several: it looks at what the others have changed before it says that there is no topic.

    For a group's offsets, and for tools, that answer is the last word. What shows the catalog is answered after a look,
    too, if there is something new: whoever has heard of a change finds it at every node.

    Args:
        handle: serves a request.
        names: gives the names or ids of its topics.
        again: serves it after the look, with an answer through its context.
        of_the_catalog: whether it shows the catalog.
    """

    def looked(request: Any, ctx: RequestContext, services: Any) -> Any:
        topics = services.topics
        is_new = of_the_catalog and topics.is_behind()
        if not is_new and all(name in topics.topics or name in topics.by_id for name in names(request, ctx)):
            return handle(request, ctx, services)

        def go_on() -> None:
            if not ctx.closed:
                again(request, ctx)

        topics.refreshed(go_on)
        return None

    return looked


def when_sure(
    handle: Callable[[Any, RequestContext, Any], Any], again: Callable[[Any, RequestContext], None]
) -> Callable[[Any, RequestContext, Any], Any]:
    """A handler for a node of several that shows what is led here: it waits until that is certain.

    A node that stood still may find requests before it finds out that its lease is over.

    Args:
        handle: serves a request.
        again: serves it once it is certain, with an answer through its context.
    """

    def sure(request: Any, ctx: RequestContext, services: Any) -> Any:
        def go_on() -> None:
            if not ctx.closed:
                again(request, ctx)

        return handle(request, ctx, services) if services.cluster.placement.when_sure(go_on) else None

    return sure


def find(topics: TopicManager, name: str, index: int) -> Partition | Refusal:
    """A partition, or why there is none."""
    topic = topics.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
    missing = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}")
    return topic.partition(index) or missing
