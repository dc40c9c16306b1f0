"""ConsumerGroupHeartbeat: what is said about a request before a group is looked at (1.3), and the shortest way."""

from __future__ import annotations

import dataclasses
from collections import deque

from ottla.broker.core.consumer_groups import notes
from ottla.broker.core.consumer_groups.assigning import Assigning, Assignment, NotYet, assign
from ottla.broker.core.consumer_groups.changes import Refused
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.heartbeat import heartbeat
from ottla.broker.core.consumer_groups.progress import new_member_id
from ottla.broker.core.consumer_groups.state import IS_AWAY, LEAVES
from ottla.broker.core.effects import Asker, Work
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.notes import refused
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.steps import Steps

CHOOSES_ITS_ID = 1
"""From this version on a client chooses its own member id (KIP-1082)."""

MOST_AT_ONCE = 20
"""So many of those who waited for an assignment are served in one entry; everything else has its turn in between."""

_BLANKS = "".join(map(chr, range(ord(" ") + 1)))


def beat(
    m: Machine, request: ConsumerGroupHeartbeatRequest, ctx: Asker, now_ms: int
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer to a heartbeat that says nothing new and finds nothing to do; None for any other.

    It costs a few comparisons and one integer stored, as one of the classic protocol does. The same answer is the same
    object.
    """
    group = m.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup) or group.in_flight or group.checked_version != m.topics.version:
        return None
    session = group.sessions.get(request.member_id)
    if session is None or (answer := session.answer) is None:
        return None
    state, epoch = group.state, request.member_epoch
    if not epoch == answer.member_epoch == state.assignment_epoch == state.epoch or state.subscriptions.regexes:
        return None
    member = state.members[request.member_id]
    if (
        request.instance_id is not None
        or request.rack_id is not None
        or request.rebalance_timeout_ms != -1
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.topic_partitions is not None
        or ctx.client_id != member.client_id
        or ctx.client_host != member.client_host
    ):
        return None
    session.session_deadline_ms = now_ms + session.session_timeout_ms
    return answer


def serve(
    m: Machine, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, ctx: Asker
) -> ConsumerGroupHeartbeatResponse | None:
    """Answer a heartbeat, once it is known that the coordinator was started; None if the answer waits for records.

    A heartbeat that changes nothing is no entry that is told of, and has no number; nor has one that waits for an
    assignment, until that is there.
    """
    assigning = m.assigning.get(request.group_id)
    if assigning is not None:
        assigning.waiting.append((request, ctx))
        return None
    return _serve(m, shard, request, ctx)


def resume(m: Machine, assigning: Assigning, assignment: Assignment | None) -> None:
    """Serve those who waited for an assignment, as if they came now.

    Args:
        assignment: None if the assignor failed.
    """
    if m.assigning.get(assigning.group_id) is not assigning:
        return  # it was given up
    assigning.assignment, assigning.is_over = assignment, True
    bugs: list[Exception] = []
    served = 0
    while assigning.waiting and m.assigning[assigning.group_id] is assigning:
        if served == MOST_AT_ONCE:
            m.effects.append(Work(_after_others(assignment), assigning))
            break
        served += 1
        request, ctx = assigning.waiting.popleft()
        try:
            answer = _serve(m, m.shards[assigning.partition], request, ctx)
        except Exception as error:  # it must not keep the others from their answers
            bugs.append(error)
            answer = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        if answer is not None:
            m.reply(ctx, answer, request.group_id, request.member_id)
        assigning.tries = 0
    if not assigning.waiting and m.assigning[assigning.group_id] is assigning:
        del m.assigning[assigning.group_id]
    if bugs:
        raise bugs[0]


def _after_others(assignment: Assignment | None) -> Steps[Assignment | None]:
    yield None
    return assignment


def give_up(m: Machine, partition: int) -> None:
    """Answer those who wait for an assignment in a shard that is given up."""
    for assigning in [one for one in m.assigning.values() if one.partition == partition]:
        del m.assigning[assigning.group_id]
        for request, ctx in assigning.waiting:
            answer = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
            m.reply(ctx, answer, request.group_id, request.member_id)


def _serve(
    m: Machine, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, ctx: Asker
) -> ConsumerGroupHeartbeatResponse | None:
    issued = ""
    if not request.member_id and not request.member_epoch and ctx.api_version < CHOOSES_ITS_ID:
        issued = new_member_id(m)
    is_announced = False

    def announce() -> None:
        nonlocal is_announced
        if not is_announced:
            is_announced = True
            m.begin(m.now_ms)
            notes.heartbeat_received(m, request, ctx, issued)

    try:
        check(request, ctx.api_version, m.config)
        if shard.refusal:
            raise Refused(shard.refusal)
        named = dataclasses.replace(request, member_id=issued) if issued else request
        return heartbeat(m, shard, named, ctx, announce)
    except Refused as error:
        announce()
        refused(m, "ConsumerGroupHeartbeat", request.group_id, request.member_id, error.error_code)
        return ConsumerGroupHeartbeatResponse(error_code=error.error_code, error_message=error.text)
    except NotYet as wanted:
        _wait(m, shard, request, ctx, wanted)
        return None


def _wait(m: Machine, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, ctx: Asker, wanted: NotYet) -> None:
    """Have an assignment computed; the request waits for it, before those that wait already."""
    before = m.assigning.get(request.group_id)
    assigning = Assigning(request.group_id, shard.partition, wanted.assignor, wanted.spec, deque([(request, ctx)]))
    if before is not None:
        assigning.waiting.extend(before.waiting)
        assigning.tries = before.tries + 1
    m.assigning[request.group_id] = assigning
    m.effects.append(Work(assign(request.group_id, wanted.assignor, wanted.spec), assigning))


def check(request: ConsumerGroupHeartbeatRequest, api_version: int, config: GroupConfig) -> None:
    """Say what is wrong with a request by itself.

    Raises:
        Refused: something is.
    """
    if not config.serves_consumer_protocol:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if problem := _problem(request, api_version):
        raise Refused(ErrorCode.INVALID_REQUEST, problem)
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.assignors:
        text = f"There is no assignor {assignor!r}; there are {', '.join(config.assignors)}"
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def _problem(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str:
    epoch = request.member_epoch
    if (api_version >= CHOOSES_ITS_ID or epoch > 0 or epoch == LEAVES) and _is_blank(request.member_id):
        return "The member id must not be empty"
    if _is_blank(request.group_id):
        return "The group id must not be empty"
    if request.instance_id is not None and _is_blank(request.instance_id):
        return "The instance id must not be empty"
    if request.rack_id is not None and _is_blank(request.rack_id):
        return "The rack id must not be empty"
    if not epoch:
        if request.rebalance_timeout_ms == -1:
            return "Who joins must say its rebalance timeout"
        if request.topic_partitions is None or request.topic_partitions:
            return "Who joins must say that it owns no partitions"
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Who joins must name topics or a regular expression"
    if epoch == IS_AWAY and request.instance_id is None:
        return "Who goes away for a while must say its instance id"
    if epoch < IS_AWAY:
        return f"There is no member epoch {epoch}"
    return ""


def _is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)
