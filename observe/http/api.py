"""The API under ``/v1``: one table of what can be asked for, for the routes and for the OpenAPI document.

It is read-only. Whoever adds endpoints that are not (`ottla.workbench.http`) gives them a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ottla.broker.core.security.acls import AclOperation
from ottla.observe.http import answers
from ottla.observe.http.parameters import Choice, Parameter, Text, Whole
from ottla.observe.http.parts import Parts
from ottla.observe.http.pauses import Pauses
from ottla.observe.http.problems import Problem
from ottla.observe.http.visitors import Sight
from ottla.observe.snapshot import ClusterState, GroupBrief, GroupState, TopicState
from ottla.observe.timeline.model import Timeline

STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Empty", "Dead")
MOST_GROUPS = 1_000
MOST_TOPICS = 1_000
MOST_EVENTS = 10_000
MOST_NAMES = 1_000_000
"""Characters of the names of one page: a name may have 32,767 of them."""
MOST_EPISODES = 1_000
RECENT_MS = 3_600_000

Query = dict[str, Any]


class Endpoint(NamedTuple):
    """Something that can be asked for.

    Attributes:
        path: with the names of its parts that vary in braces.
        handle: takes the parts of the broker, the varying parts of the path, and the query, or in its place the body;
            gives what ``answer`` says, or bytes that are its JSON, at once or to whoever awaits it.
        is_there: False while a part is missing that it is about.
        method: other than GET, it changes something: see `ottla.observe.http.access.check_write`.
        body: what the JSON object of a POST is.
        is_list_of_groups: it shows what of them may be seen. Else whoever asks needs a right on the group that the path
            names, or on the cluster.
    """

    path: str
    name: str
    says: str
    answer: Any
    handle: Callable[[Parts, dict[str, str], Query], Any]
    parameters: tuple[Parameter, ...] = ()
    is_there: Callable[[Parts], bool] = lambda parts: True
    method: str = "GET"
    body: Any = None
    is_list_of_groups: bool = False

    def check(self, sight: Sight, names: dict[str, str]) -> None:
        """Let a visitor ask. Raises `Problem`."""
        if "group" in names:
            sight.check_group(names["group"])
        if self.method != "GET":
            sight.check_cluster(AclOperation.ALTER)
        elif "group" not in names and not self.is_list_of_groups:
            sight.check_cluster(AclOperation.DESCRIBE)


# -- the cluster and its topics


async def _topics(parts: Parts, names: dict[str, str], query: Query) -> answers.Topics:
    q, after, limit = query["q"] or "", query["after"], query["limit"]
    pause, found = Pauses(), []
    for topic in parts.view.topics():
        if q in topic.topic and (after is None or topic.topic > after):
            found.append(topic)
        await pause()
    found.sort(key=lambda topic: topic.topic)
    return answers.Topics(found[:limit], found[limit - 1].topic if len(found) > limit else None)


def _topic(parts: Parts, names: dict[str, str], query: Query) -> TopicState:
    topic = parts.view.topic(names["topic"])
    if topic is None:
        raise Problem(404, f"there is no topic {names['topic']!r}")
    return topic


# -- groups


async def _groups(parts: Parts, names: dict[str, str], query: Query) -> answers.Groups:
    pause, view, limit, sees_all = Pauses(), parts.view, query["limit"], parts.sight.sees_all
    state, q, after = query["state"], query["q"] or "", query["after"]
    found: list[GroupBrief] = []
    room = MOST_NAMES
    ids = sorted(one for one in view.group_ids() if q in one and (after is None or one > after))
    for group_id in ids:
        await pause()
        brief = view.brief(group_id) if sees_all or parts.sight.sees(group_id) else None
        if brief is None or (state is not None and brief.state != state):
            continue
        if len(found) == limit or room <= 0:
            return answers.Groups(found, found[-1].group_id)
        found.append(brief)
        room -= len(group_id)
    return answers.Groups(found)


def _group(parts: Parts, names: dict[str, str], query: Query) -> GroupState:
    group = parts.view.group(names["group"])
    if group is None:
        raise Problem(404, f"there is no group {names['group']!r}")
    return group


def _members(parts: Parts, names: dict[str, str], query: Query) -> answers.Members:
    return answers.Members(_group(parts, names, query).members)


def _offsets(parts: Parts, names: dict[str, str], query: Query) -> answers.Offsets:
    _group(parts, names, query)
    return answers.Offsets(parts.view.offsets(names["group"]))


# -- what became of a group; one that is gone may still have some of it


async def _events(parts: Parts, names: dict[str, str], query: Query) -> answers.Events:
    assert parts.recorder is not None
    pause, bodies = Pauses(), []
    after, limit = query["after"], query["limit"]
    found = parts.recorder.events(names["group"], after, limit)
    if not found:
        _known(parts, names)
    for seq, event in found:
        bodies.append(event_json(seq, event))
        await pause()
    return answers.Events(bodies, found[-1][0] if found else after)


async def _why(parts: Parts, names: dict[str, str], query: Query) -> bytes:
    assert parts.history is not None
    last, since_ms, generation = query["last"], query["since"], query["generation"]
    if last is None:
        last = 1 if since_ms is generation is None else MOST_EPISODES
    pause, bodies = Pauses(), []
    wanted = {"last": last, "since_ms": since_ms, "generation": generation}
    async for episode in parts.history.each(names["group"], pause, **wanted):
        bodies.append(msgspec.Raw(msgspec.json.encode(episode)))
        await pause()
    if not bodies:
        _known(parts, names)
    return msgspec.json.encode({"episodes": bodies})


async def _costs(parts: Parts, names: dict[str, str], query: Query) -> answers.Costs:
    assert parts.history is not None
    since_ms = parts.clock.wall_ms() - RECENT_MS if query["since"] is None else query["since"]
    room, found = MOST_NAMES, []
    for cost in await parts.history.costs(since_ms, Pauses(), most=MOST_GROUPS):
        if not parts.sight.sees(cost.group_id):
            continue
        room -= len(cost.group_id)
        if room < 0:
            break
        found.append(cost)
    return answers.Costs(since_ms, found)


async def _timeline(parts: Parts, names: dict[str, str], query: Query) -> bytes:
    assert parts.timelines is not None
    _known(parts, names)
    return await parts.timelines.told(names["group"], Pauses(), last=query["last"], since_ms=query["since"])


def _known(parts: Parts, names: dict[str, str]) -> None:
    """Refuse a group that nobody has ever heard of."""
    group_id = names["group"]
    if parts.view.brief(group_id) is not None:
        return
    if parts.recorder is not None and parts.recorder.events(group_id, 0, 1):
        return
    if parts.history is not None and parts.history.knows(group_id):
        return
    raise Problem(404, f"there is no group {group_id!r}")


def event_json(seq: int, event: bytes) -> msgspec.Raw:
    """An event of the recorder as a JSON object, with its number; bytes are in Base64."""
    fields = msgspec.msgpack.decode(event)
    return msgspec.Raw(msgspec.json.encode({"seq": seq, **fields}))


def _sentinels(parts: Parts, names: dict[str, str], query: Query) -> answers.Alarms:
    assert parts.sentinels is not None
    active, recent = parts.sentinels.active(), parts.sentinels.recent()
    return answers.Alarms(*([one for one in those if parts.sight.sees(one.group_id)] for those in (active, recent)))


_LAST = Whole("last", "So many of the latest.", 1, MOST_EPISODES)
_SINCE = Whole("since", "What began at this time or later, in Unix milliseconds.")
_Q = Text("q", "Only names that contain this.", 255)
_AFTER = Text("after", "Only names that come after this one: `next` of the answer before.")

ENDPOINTS = (
    Endpoint(
        "/v1/cluster",
        "cluster",
        "The broker.",
        ClusterState,
        lambda parts, names, query: parts.view.cluster(),
    ),
    Endpoint(
        "/v1/topics",
        "topics",
        "The topics with their partitions, by name.",
        answers.Topics,
        _topics,
        (_Q, Whole("limit", "The most topics of one answer.", 1, MOST_TOPICS, MOST_TOPICS), _AFTER),
    ),
    Endpoint("/v1/topics/{topic}", "topic", "One topic.", TopicState, _topic),
    Endpoint(
        "/v1/groups",
        "groups",
        "One line for each group, by id.",
        answers.Groups,
        _groups,
        (
            Choice("state", "Only groups in this state.", STATES),
            _Q,
            Whole("limit", "The most groups of one answer.", 1, MOST_GROUPS, 100),
            _AFTER,
        ),
        is_list_of_groups=True,
    ),
    Endpoint("/v1/groups/{group}", "group", "A group with its members.", GroupState, _group),
    Endpoint("/v1/groups/{group}/members", "members", "The members of a group.", answers.Members, _members),
    Endpoint(
        "/v1/groups/{group}/offsets", "offsets", "What a group has committed, and its lag.", answers.Offsets, _offsets
    ),
    Endpoint(
        "/v1/groups/{group}/events",
        "events",
        "What the flight recorder holds of a group, oldest first.",
        answers.Events,
        _events,
        (
            Whole("after", "Only events with a larger `seq`: `next` of the answer before.", default=0),
            Whole("limit", "The most events of one answer.", 1, MOST_EVENTS, 1_000),
        ),
        lambda parts: parts.recorder is not None,
    ),
    Endpoint(
        "/v1/groups/{group}/why",
        "why",
        "The rebalances of a group and why, oldest first; the one that runs is the last. The latest 1,000 at most.",
        answers.Why,
        _why,
        (
            Whole("last", "So many of the latest; without any parameter it is one.", 1, MOST_EPISODES),
            Whole("generation", "Those that led to this generation, or began in it.", 0, 2**31 - 1),
            _SINCE,
        ),
        lambda parts: parts.history is not None,
    ),
    Endpoint(
        "/v1/groups/{group}/timeline",
        "timeline",
        "Who did what when: lanes of members, barriers, commits, lag.",
        Timeline,
        _timeline,
        (_LAST, _SINCE),
        lambda parts: parts.timelines is not None,
    ),
    Endpoint(
        "/v1/costs",
        "costs",
        "What groups have cost in the last hour, the most first: how long partitions stood still, who was turned away.",
        answers.Costs,
        _costs,
        (Whole("since", "What began at this time or later instead, in Unix milliseconds."),),
        lambda parts: parts.history is not None,
        is_list_of_groups=True,
    ),
    Endpoint(
        "/v1/sentinels",
        "sentinels",
        "The alarms that stand, and the latest.",
        answers.Alarms,
        _sentinels,
        (),
        lambda parts: parts.sentinels is not None,
        is_list_of_groups=True,
    ),
)
