"""The steps of a member that joins or says something new: the same for ConsumerGroupHeartbeat and JoinGroup (2.7)."""

from __future__ import annotations

import base64

from msgspec.structs import replace

from ottla.broker.core.consumer_groups import notes, resolution
from ottla.broker.core.consumer_groups.assignors.spec import Target
from ottla.broker.core.consumer_groups.changes import Change, Refused
from ottla.broker.core.consumer_groups.facts import MemberCurrent, MemberGone, MemberSaid, MemberTarget, OldMetadata
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.reconcile import Reported, Unreconcilable, reconcile
from ottla.broker.core.consumer_groups.state import STABLE, UNREVOKED, Member
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import MemberReplaced
from ottla.broker.core.groups.group import group_bytes
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.protocol.errors import ErrorCode


def new_member_id(m: Machine) -> str:
    """22 characters that nobody has, in the form in which Kafka makes them."""
    number = int(m.new_id().replace("-", ""), 16).to_bytes(16, "big")
    return base64.urlsafe_b64encode(number).decode().rstrip("=")


# Who it is


def check_size(m: Machine, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Refuse somebody new in a full group (R1.4). It comes before everything that is known of the member."""
    state, most = group.state, m.config.group_consumer_max_size
    if (
        len(state.members) >= most
        and member_id not in state.members
        and (instance_id or "") not in state.static_members
    ):
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.group_id} has {most} members, the most it may")


def known_instance(change: Change, instance_id: str) -> Member | None:
    """The member that an instance id stands for; None if nobody has had it."""
    state = change.state
    if instance_id not in state.static_members:
        return None
    member = state.static_member(instance_id)
    if member is None:
        # The instance id was given up for another one, and then its member went (R2.18).
        text = f"Instance {instance_id} is not in group {change.group.group_id}"
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def take_place(change: Change, old: Member, member_id: str) -> Member:
    """A static member is back, maybe under another id: it has what its predecessor had (R2.15)."""
    old_target = change.state.targets.get(old.member_id, {})
    if member_id != old.member_id:
        change.displaced = change.state.members.get(member_id)
    change.add(MemberCurrent.gone(old.member_id))
    change.add(MemberTarget(old.member_id, None))
    change.add(MemberGone(old.member_id))
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    change.add(MemberSaid(new))
    change.add(MemberTarget(member_id, old_target))
    change.add(MemberCurrent.of(new))
    session = change.group.sessions.get(old.member_id)
    if session is not None:
        session.answer = None
    change.events.append(
        MemberReplaced(
            group_id=change.group.group_id,
            member_id=member_id,
            old_member_id=old.member_id,
            group_instance_id=old.instance_id or "",
            state=change.state.group_state,
        )
    )
    return new


# What it says


def say(change: Change, before: Member, said: Member) -> Member:
    """Take note of what a member says of itself, if that is new."""
    if said == before:
        return before
    m, group = change.m, change.group
    is_new = before.member_id not in change.state.members
    more_bytes = said.held_bytes - (0 if is_new else before.held_bytes)
    known = m.groups.get(group.group_id)
    if not m.has_room(known, more_bytes if known is not None else more_bytes + group_bytes(group.group_id)):
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.group_id} keeps as much as it may")
    change.add(MemberSaid(said))
    change.events.append(notes.subscribed(m, group, said, is_new=is_new))
    return said


def change_regex(change: Change, before: Member, said: Member, ctx: Asker) -> tuple[bool, bool]:
    """Keep account of the regexes, and have them resolved if it is time (3.3).

    Returns:
        Whether the member's regex changed; and whether that is a change of the group's topics by itself.
    """
    state = change.state
    resolved = state.resolved
    changed, is_resolved, is_new = said.regex != before.regex, False, False
    if changed:
        users = state.subscriptions.regexes
        if said.regex and users[said.regex] == 1:
            is_new = True
            try:
                Pattern(said.regex)
            except BadPattern as error:
                text = f"{said.regex!r} is no regular expression: {error}"
                raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
        else:
            is_resolved = not said.regex or said.regex in resolved
        resolved = dict(resolved)
        resolution.forget_unused(change, [before.regex])
        # What the group subscribes to changes now, and its epoch only when the regex is resolved.
        change.checked_hash = change.m.topics.hash_of(state.subscriptions.topics())
    resolution.start_if_due(change, resolved, ctx, brings_new=is_new)
    return changed, is_resolved


def refresh(change: Change, *, names_changed: bool, regex_changed: bool) -> None:
    """Hold the group against its topics, if it subscribes to others now or something happened to them (2.7 step 4)."""
    state = change.state
    reasons = ["subscription changed"] if names_changed else []
    if regex_changed:
        reasons.append("regex changed")
    if not reasons and not change.is_due:
        return
    metadata_hash = change.m.topics.hash_of(state.subscriptions.topics())
    if metadata_hash != state.metadata_hash:
        reasons.append("topics changed")
    change.is_homogeneous = state.subscriptions.is_homogeneous(len(state.members))
    if reasons:
        change.bump(metadata_hash, reasons)
    if state.has_old_metadata:
        change.add(OldMetadata(False))
    change.is_due, change.checked_hash = False, metadata_hash


# The step towards the target


def step(change: Change, said: Member, goal: Target, reported: Reported, *, subscription_changed: bool) -> Member:
    """Take a member a step towards its target, and return it as it is then (section 5)."""
    state = change.state
    member = state.members[said.member_id]
    if not subscription_changed and member.state is STABLE and member.epoch == state.assignment_epoch:
        return member
    names = list(state.topics_of(member))
    subscribed = {topic.topic_id: None for topic in change.m.topics.existing(names)} if names else None
    try:
        next_step = reconcile(
            state,
            member,
            goal,
            reported,
            subscribed,
            subscription_changed=subscription_changed,
            displaced=change.displaced,
        )
    except Unreconcilable:
        text = f"The state of member {member.member_id} is not known: it has to give up its partitions and join again"
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, text) from None
    after = next_step.member
    if after != member:
        change.add(MemberCurrent.of(after))
        has_deadline = after.state is UNREVOKED and after.classic is None
        deadline_ms = change.m.now_ms + after.rebalance_timeout_ms if has_deadline else 0
        change.events.append(notes.reconciled(change.m, change.group, after, next_step.blocked, deadline_ms))
    elif member.state is UNREVOKED and member.classic is None:
        change.events.append(notes.awaited(change.m, change.group, member, reported))
    return after
