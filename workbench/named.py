"""What a request names: groups, members, topics and so on, wherever its message has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.structs import ArrayOf, WireType

GROUP, MEMBER, INSTANCE, TOPIC, TOPIC_ID, TRANSACTIONAL_ID = (
    "group", "member", "instance", "topic", "topic_id", "transactional_id"
)  # fmt: skip
_BY_FIELD = {
    "group_id": (GROUP,),
    "groups_names": (GROUP,),
    "groups": (GROUP,),
    "group_ids": (GROUP,),
    "member_id": (MEMBER,),
    "group_instance_id": (INSTANCE,),
    "instance_id": (INSTANCE,),
    "transactional_id": (TRANSACTIONAL_ID,),
    "transactional_ids": (TRANSACTIONAL_ID,),
    "v3_and_below_transactional_id": (TRANSACTIONAL_ID,),
    "topic": (TOPIC,),
    "topic_names": (TOPIC,),
    "subscribed_topic_names": (TOPIC,),
    "topic_id": (TOPIC_ID,),
    # Of FindCoordinator: the one or the other, by its key type.
    "key": (GROUP, TRANSACTIONAL_ID),
    "coordinator_keys": (GROUP, TRANSACTIONAL_ID),
}
_LISTS_OF_TOPICS = ("topics", "topic_data", "v3_and_below_topics")
"""Whose items have the topic as their ``name``."""
_ABOUT_OTHERS = ("assignments", "forgotten_topics_data", "cursor")
"""A leader's SyncGroup names all members, and is from one."""


class _Path(NamedTuple):
    """The way to a field: through each list on it."""

    steps: tuple[Any, ...]

    def values(self, message: Any) -> Iterator[Any]:
        found = [message]
        for step in self.steps:
            found = [value for one in found if (value := step(one)) is not None]
            found = [one for value in found for one in (value if isinstance(value, list) else [value])]
        return iter(found)


@cache
def named_by(key: ApiKey) -> dict[str, list[_Path]]:
    """What requests of an API name, and where. ``topic`` is there, too, where they name topics by their ids."""
    paths: dict[str, list[_Path]] = {}
    _walk(api(key).request, (), "", paths)
    if TOPIC_ID in paths:
        paths.setdefault(TOPIC, [])
    return paths


def _walk(message: Any, steps: tuple[Any, ...], within: str, paths: dict[str, list[_Path]]) -> None:
    for field in message.__wire__:
        way = (*steps, attrgetter(field.name))
        kind = field.type.item if isinstance(field.type, ArrayOf) else field.type
        if not isinstance(kind, WireType):
            if field.name not in _ABOUT_OTHERS:
                _walk(kind, way, field.name, paths)
        elif field.name == "name" and within in _LISTS_OF_TOPICS:
            paths.setdefault(TOPIC, []).append(_Path(way))
        elif not (within and field.name == "key"):
            for name in _BY_FIELD.get(field.name, ()):
                paths.setdefault(name, []).append(_Path(way))


def names(key: ApiKey, request: Any, kind: str) -> list[Any]:
    """What a request names of a kind; empty names are left out."""
    return [value for path in named_by(key).get(kind, ()) for value in path.values(request) if value]
