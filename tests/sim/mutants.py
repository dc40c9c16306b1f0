"""Planted bugs: mistakes that one makes when one writes a group coordinator. The simulation must find each.

A bug is a change of the text of one function. Its compiled code takes the place of the right one for a while, under
whatever name others have imported it, and is taken out again.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

CORE = "ottla.broker.core"


@dataclass(frozen=True)
class Mutant:
    """Replace ``right`` by ``wrong`` in the function ``where`` of a module of the core.

    Attributes:
        focus: what the worlds that look for it must have, where it takes several things at once to show.
    """

    name: str
    where: str
    right: str
    wrong: str
    focus: tuple[str, ...] = ()

    @contextmanager
    def planted(self) -> Iterator[None]:
        function = self.function()
        code = function.__code__
        function.__code__ = self._mutated(function)
        try:
            yield
        finally:
            function.__code__ = code

    def function(self) -> FunctionType:
        module, _, path = self.where.partition(":")
        found: Any = import_module(f"{CORE}.{module}")
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        found = found.fget if isinstance(found, property) else found
        assert isinstance(found, FunctionType)
        return found

    def _mutated(self, function: FunctionType) -> CodeType:
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, f"{self.name}: {self.where} has no single {self.right!r} any more"
        module = compile(
            source.replace(self.right, self.wrong),
            f"<{self.name}>",
            "exec",
            flags=function.__code__.co_flags & 0x1000000,
        )
        return next(
            constant
            for constant in module.co_consts
            if isinstance(constant, CodeType) and constant.co_name == function.__name__
        )


MUTANTS = [
    Mutant(
        "a heartbeat between join and sync is told to rejoin",
        "groups.coordinator:GroupCoordinator.heartbeat",
        "return group.heartbeat_answer",
        "return 27 if str(group.state) == 'CompletingRebalance' else group.heartbeat_answer",
    ),
    Mutant(
        "commits are accepted between join and sync",
        "groups.classic.group:Group.refuse_commit",
        "if self.state is COMPLETING_REBALANCE",
        "if False",
        focus=("late followers",),
    ),
    Mutant(
        "a replaced static member is not fenced",
        "groups.classic.group:Group.fence",
        "if owner != member_id:",
        "if owner != member_id and member_id in self.members:",
    ),
    Mutant(
        "the parked request of a replaced static member is forgotten",
        "groups.classic.join:_replace",
        "if (parked := group.unpark_join(old)) is not None:",
        "if group.unpark_join(old) is not None and (parked := None):",
    ),
    Mutant(
        "issued ids do not hold the join phase open",
        "groups.classic.group:Group.all_joined",
        " and not self.pending_members",
        "",
    ),
    Mutant(
        "members whose request is parked expire",
        "groups.classic.membership:session_over",
        "if not member.is_new and (member.parked_join is not None or member.parked_sync is not None):",
        "if False:",
    ),
    Mutant(
        "an emptied group keeps its generation",
        "groups.classic.group:Group.next_generation",
        "self.generation += 1",
        "self.generation += bool(self.members)",
    ),
    Mutant(
        "SyncGroup is answered before the assignments are durable",
        "groups.classic.sync:_assign",
        "m.append(AssignmentWrite(group, assignments, request.member_id), [record])",
        "write = AssignmentWrite(group, assignments, request.member_id)\n    m.append(write, [record])\n"
        "    write.done(m, ErrorCode.NONE)",
    ),
    Mutant(
        "a failed append of assignments counts as done",
        "groups.classic.sync:AssignmentWrite.done",
        "if error:",
        "if False:",
    ),
    Mutant(
        "a failed commit is acknowledged",
        "groups.offsets.commit:CommitWrite.done",
        "answer.error_code = append_error(error)",
        "answer.error_code = ErrorCode.NONE",
    ),
    Mutant(
        "a failed commit becomes visible",
        "groups.offsets.commit:CommitWrite.done",
        "if not error:\n            self.keep",
        "if True:\n            self.keep",
    ),
    Mutant(
        "the assignments of an older generation are published",
        "groups.classic.sync:AssignmentWrite.done",
        "group.state is COMPLETING_REBALANCE and group.generation == self.generation",
        "group.state is COMPLETING_REBALANCE",
        focus=("slow appends", "late leaders"),
    ),
    Mutant(
        "a SyncGroup of another generation is accepted",
        "groups.classic.sync:_validate",
        "request.generation_id != group.generation or group.unannounced",
        "request.generation_id > group.generation or group.unannounced",
    ),
    Mutant(
        "a follower's assignments count",
        "groups.classic.sync:sync",
        "group.leader_id == member.member_id and not group.assigning",
        "request.assignments and not group.assigning",
    ),
    Mutant(
        "assignments that come twice are logged twice",
        "groups.classic.sync:sync",
        "group.leader_id == member.member_id and not group.assigning",
        "group.leader_id == member.member_id",
        focus=("slow appends", "impatience"),
    ),
    Mutant(
        "heartbeats of another generation keep a session alive",
        "groups.coordinator:GroupCoordinator.heartbeat",
        "if member is not None and request.generation_id == group.generation:",
        "if member is not None:\n            member.session_deadline_ms = now_ms + member.session_timeout_ms\n"
        "        if member is not None and request.generation_id == group.generation:",
    ),
    Mutant(
        "SyncGroup in a Stable group restarts the session",
        "groups.classic.sync:sync",
        "return sync_success(group, member)",
        "m.start_session(group, member); return sync_success(group, member)",
        focus=("impatience", "client crashes"),
    ),
    Mutant(
        "commits do not keep a session alive",
        "groups.machine:Machine.heard_of",
        "if group.has_sessions:",
        "if False:",
        focus=("naps",),
    ),
    Mutant(
        "a shorter session is looked after too late",
        "groups.machine:Machine.start_session",
        "min(member.session_deadline_ms, self.now_ms + session_ms)",
        "self.now_ms + 300_000",
    ),
    Mutant(
        "a session that was moved is never looked at again",
        "groups.coordinator:GroupCoordinator._session_due",
        "m.deadlines.set(key, min(member.session_deadline_ms, now_ms + member.session_timeout_ms))",
        "pass",
    ),
    Mutant(
        "a deadline set earlier than before is lost",
        "purgatory:Deadlines.set",
        "if queued is None or at_ms < queued[0]:",
        "if queued is None:",
        focus=("strangers", "impatience"),
    ),
    Mutant(
        "who was answered has no session",
        "groups.classic.rebalance:answer_syncs",
        "m.start_session(group, member)",
        "pass",
    ),
    Mutant(
        "nobody is dropped for a missing SyncGroup",
        "groups.classic.rebalance:sync_overdue",
        "absent = list(group.pending_sync)",
        "return",
    ),
    Mutant(
        "a member that synced is dropped",
        "groups.classic.rebalance:has_synced",
        "group.pending_sync.pop(member_id, None)",
        "pass",
    ),
    Mutant(
        "late members stay in the generation",
        "groups.classic.rebalance:finish",
        "member.parked_join is None and not member.is_static",
        "False",
    ),
    Mutant(
        "absent static members are dropped with the late ones",
        "groups.classic.rebalance:finish",
        " and not member.is_static",
        "",
        focus=("static members", "client crashes"),
    ),
    Mutant(
        "an absent member leads",
        "groups.classic.group:Group.elect_joined_leader",
        "if leader is not None and leader.parked_join is not None:",
        "if leader is not None:",
        focus=("static members", "client crashes"),
    ),
    Mutant(
        "everybody leads",
        "groups.classic.replies:join_success",
        'leader=group.leader_id or "",',
        "leader=member.member_id,",
    ),
    Mutant(
        "everybody is shown the members",
        "groups.classic.replies:join_success",
        "members=group.described_members() if group.leader_id == member.member_id else [],",
        "members=group.described_members(),",
    ),
    Mutant(
        "the vote forgets a member",
        "groups.classic.group:Group.select_protocol",
        "for member in self.members.values())",
        "for member in list(self.members.values())[: max(len(self.members) - 1, 1)])",
    ),
    Mutant(
        "one member's protocol is enough",
        "groups.classic.group:Group.supports",
        "self.protocol_support.get(name, 0) == everybody",
        "self.protocol_support.get(name, 0)",
        focus=("several protocols", "misfits"),
    ),
    Mutant(
        "the initial delay ends when everybody is there",
        "groups.classic.rebalance:try_finish",
        " and group.previous_state is not EMPTY",
        "",
    ),
    Mutant(
        "a follower that rejoins unchanged starts a rebalance",
        "groups.classic.join:_join_known",
        "if group.state is STABLE and unchanged:",
        "if False:",
        focus=("strangers",),
    ),
    Mutant(
        "a leader that rejoins unchanged starts no rebalance",
        "groups.classic.join:_join_known",
        "if group.state is STABLE and group.leader_id == member_id:",
        "if False:",
        focus=("eager leaders",),
    ),
    Mutant(
        "a group that rebalances can be deleted",
        "groups.removal:delete_groups",
        "elif group.state is not EMPTY:",
        "elif group.members and str(group.state) != 'PreparingRebalance':",
    ),
    Mutant(
        "the sync timer of the last generation still runs",
        "groups.classic.rebalance:prepare",
        "m.disarm(Timer.SYNC, group)",
        "pass",
    ),
    Mutant(
        "the join timer runs on after the phase",
        "groups.classic.rebalance:finish",
        "m.disarm(Timer.JOIN, group)",
        "pass",
    ),
    Mutant(
        "a static replacement that could not be logged stays",
        "groups.classic.join:ReplacementWrite.done",
        "if error:",
        "if False:",
    ),
    Mutant(
        "leaving is answered before it is durable",
        "groups.classic.membership:leave",
        "if write is None:",
        "if True:",
    ),
    Mutant(
        "a full group lets others in",
        "groups.classic.join:_admits",
        "group.parked_joins < limit",
        "len(group.members) <= limit",
        focus=("small groups",),
    ),
    Mutant(
        "a newer request of a member counts twice",
        "groups.classic.group:Group.park_join",
        "if not replaced:",
        "if True:",
    ),
    Mutant(
        "a disconnect removes the member",
        "coordination.machine:CoordinatorMachine.begin",
        "self.cause += 1",
        "self.cause += 1\n    for group in vars(self).get('groups', {}).values():\n"
        "        for member in list(group.members.values()):\n"
        "            if member.parked_sync is not None and member.parked_sync.closed:\n"
        "                group.remove(member.member_id)",
    ),
    Mutant(
        "a deleted group stays in the log",
        "groups.removal:Tombstones.add_group",
        "self._add(group_tombstone(group.group_id))",
        "self._add(self._records[-1]) if self._records else self._add(group_tombstone(group.group_id))",
    ),
    Mutant(
        "replay ignores tombstones of offsets",
        "groups.replay:replay",
        "group.offsets.discard(key.topic, key.partition)",
        "pass",
    ),
    Mutant(
        "replay ignores tombstones of groups",
        "groups.replay:_replay_group",
        "shard.groups.pop(group_id, None)",
        "pass",
    ),
    Mutant(
        "a group record throws its offsets away",
        "groups.replay:_replay_group",
        "CommittedOffsets() if before is None else before.offsets",
        "CommittedOffsets()",
    ),
    Mutant(
        "offsets are visible before they are durable",
        "groups.offsets.commit:CommitWrite.hand_over",
        "offsets.write_begins(name, index)",
        "offsets.write_begins(name, index); offsets.store(name, index, committed)",
    ),
    Mutant(
        "a stable fetch does not wait",
        "groups.offsets.fetch:fetch",
        "if request.require_stable:",
        "if False:",
        focus=("slow appends",),
    ),
    Mutant(
        "loaded members have no session",
        "groups.coordinator:GroupCoordinator._activate",
        "m.start_session(group, member)",
        "pass",
    ),
    Mutant(
        "offsets of topics in use expire",
        "groups.retention:expired_partitions",
        "topic in in_use or (topic, partition)",
        "(topic, partition)",
        focus=("expiration",),
    ),
    Mutant(
        "the log keeps a generation that nobody was told of",
        "groups.classic.rebalance:finish",
        'if m.config.group_generation_persist == "join":',
        "if False:",
    ),
    Mutant(
        "an issued id never expires",
        "groups.classic.membership:void",
        'm.remove_member(group, member_id, "the issued id expired")',
        "pass",
    ),
    Mutant(
        "requests that wait are forgotten when the partition goes",
        "groups.coordinator:_dismiss",
        "for member in group.members.values():",
        "for member in ():",
    ),
    Mutant(
        "a deleted topic keeps the offsets that are on their way",
        "groups.committed:CommittedOffsets.known_partitions_of",
        "known.update(dict.fromkeys(partition for name, partition in self.in_flight",
        "(dict.fromkeys(partition for name, partition in self.in_flight",
        focus=("topic deletion", "slow appends"),
    ),
    Mutant(
        "a new group is not logged",
        "groups.classic.join:join",
        "if not group.group_writes:",
        "if False:",
    ),
    Mutant(
        "a generation without members is not logged",
        "groups.classic.rebalance:finish",
        "m.append(write, [group_record(group)])",
        "return None",
    ),
    Mutant(
        "a static replacement is not logged",
        "groups.classic.join:_replace",
        "m.append(ReplacementWrite(group, member, old, ctx, leader_id), [group_record(group)])",
        "write = ReplacementWrite(group, member, old, ctx, leader_id); group.group_writes += 1; "
        "write.done(m, ErrorCode.NONE)",
    ),
    Mutant(
        "a replacement announces a generation that is not logged",
        "groups.classic.join:ReplacementWrite.done",
        "if group.unannounced:",
        "if False:",
        focus=("generations persisted at join", "static members", "restarts", "slow appends"),
    ),
    Mutant(
        "a tombstone removes a group whose newer record is behind it",
        "groups.removal:TombstoneWrite._remove",
        "group.state is not EMPTY or group.group_writes",
        "group.state is not EMPTY",
        focus=("visitors", "slow appends"),
    ),
    Mutant(
        "replay drops the offsets of a group with its tombstone",
        "groups.replay:_replay_group",
        "if before is not None and before.offsets:",
        "if False:",
        focus=("small batches", "failed appends", "administration", "simple commits"),
    ),
    Mutant(
        "a failed static replacement keeps the new protocols",
        "groups.classic.join:ReplacementWrite._revert",
        "group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)",
        "pass",
    ),
]
