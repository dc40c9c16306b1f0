"""A group that answers scripts with the functions of `ottla.broker.core.consumer_groups` alone.

Apache Kafka's own classes answer the same scripts (`tests/differential/GroupFunctions.java`). A command is a line:

```
new                                                forget everything
topic NAME ID RACKS;RACKS;…                        it exists, or has more partitions now; answered with its hash
delete NAME                                        it is gone
resolved REGEX TOPIC,…                             what a regex came to, if somebody uses it
leave MEMBER                                       and what only its regex matched is forgotten
MEMBER INSTANCE NAMES REGEX PREFERRED ASSIGNOR     a heartbeat that computes a target
pattern PATTERN TEXT…                              in base64; whether each text is of the pattern, or "too large" for us
```

"-" stands for what is empty or null. A heartbeat is answered with the type of the subscriptions, the assignor that is
preferred, the group's hash, and the target of every member, each topic's partitions in the order of Kafka's sets.
"""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.assignors.preferred import preferred_assignor
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Target, same_partitions
from ottla.broker.core.consumer_groups.metadata_hash import group_hash, topic_hash
from ottla.broker.core.consumer_groups.subscriptions import Subscriptions
from ottla.broker.core.hash_order import copied_set_size, in_set_order, names_in_order
from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.protocol.groups import utf16_order
from ottla.protocol.steps import finished


class Member(NamedTuple):
    """What a member says of itself."""

    instance_id: str | None
    names: list[str]
    regex: str
    preferred: str | None


class Topic(NamedTuple):
    """A topic that exists; for each partition the racks of its replicas."""

    topic_id: UUID
    racks: list[list[str]]


def _words(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def _pattern(pattern: str, *texts: str) -> str:
    try:
        read = Pattern(_decoded(pattern))
    except BadPattern as error:
        return "too large" if "too large" in str(error) else "refused"
    return "matches " + "".join(str(int(read.matches(_decoded(text)))) for text in texts)


@dataclass
class Group:
    """See the module."""

    topics: dict[str, Topic] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    resolved: dict[str, list[str]] = field(default_factory=dict)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    most_members: int = 0

    def answer(self, command: str) -> str:
        """Do what a line says."""
        match command.split(" "):
            case ["new"]:
                self.__init__()  # type: ignore[misc]
            case ["topic", name, topic_id, racks]:
                self.topics[name] = Topic(UUID(topic_id), [_words(of_partition) for of_partition in racks.split(";")])
                return str(self._hash_of(name))
            case ["delete", name]:
                del self.topics[name]
            case ["resolved", regex, topics]:
                if regex in self.subscriptions.regexes:
                    self._forget(regex)
                    self.resolved[regex] = _words(topics)
                    self.subscriptions.add_resolved(self.resolved[regex])
            case ["leave", member_id]:
                self._uncount(self.members.pop(member_id))
                self.targets.pop(member_id, None)
            case ["pattern", pattern, *texts]:
                return _pattern(pattern, *texts)
            case [member_id, instance_id, names, regex, preferred, assignor]:
                said = Member(
                    None if instance_id == "-" else instance_id,
                    list(dict.fromkeys(_words(names))),
                    "" if regex == "-" else regex,
                    None if preferred == "-" else preferred,
                )
                return self._heartbeat(member_id, said, assignor)
            case _:
                raise ValueError(command)
        return ""

    def _hash_of(self, name: str) -> int:
        topic = self.topics[name]
        return topic_hash(topic.topic_id, name, topic.racks)

    def _forget(self, regex: str) -> None:
        self.subscriptions.remove_resolved(self.resolved.pop(regex, []))

    def _uncount(self, member: Member) -> None:
        self.subscriptions.remove(member.names, member.regex)
        if member.regex not in self.subscriptions.regexes:
            self._forget(member.regex)

    def _heartbeat(self, member_id: str, said: Member, assignor: str) -> str:
        of_instance = (one for one, other in self.members.items() if other.instance_id == said.instance_id is not None)
        former_id = next(of_instance, member_id)
        before = self.members.get(former_id)
        votes = Counter(member.preferred for member in self.members.values() if member.preferred)
        chosen = preferred_assignor(votes, before and before.preferred, said.preferred)
        newcomer = None if member_id in self.members else member_id
        self.subscriptions.add(said.names, said.regex)
        if before is not None:
            self._uncount(before)
        if former_id != member_id:
            del self.members[former_id]
            self.targets[member_id] = self.targets.pop(former_id)
        self.members[member_id] = said
        targets = self._assign(newcomer, assignor)
        self.most_members = max(self.most_members, len(self.members))
        homogeneous = "homogeneous" if self.subscriptions.is_homogeneous(len(self.members)) else "heterogeneous"
        existing = {name: self._hash_of(name) for name in self.subscriptions.topics() if name in self.topics}
        return " ".join([homogeneous, chosen or "-", str(group_hash(existing)), *targets])

    def _assign(self, newcomer: str | None, assignor: str) -> list[str]:
        homogeneous = self.subscriptions.is_homogeneous(len(self.members))
        counts = {topic.topic_id: len(topic.racks) for topic in self.topics.values()}
        members = [self._spec(member_id) for member_id in self.members]
        spec = GroupSpec(members, counts, homogeneous, newcomer, self.most_members)
        for member_id, target in finished(ASSIGNORS[assignor](spec)).items():
            if member_id not in self.targets or not same_partitions(self.targets[member_id], target):
                self.targets[member_id] = target
        return [f"{one}={self._written(self.targets[one])}" for one in sorted(self.members, key=utf16_order)]

    def _spec(self, member_id: str) -> MemberSpec:
        member = self.members[member_id]
        names = names_in_order(member.names, copied_set_size(len(member.names)))
        topics = dict.fromkeys([*names, *self.resolved.get(member.regex, [])])
        topic_ids = [self.topics[name].topic_id for name in topics if name in self.topics]
        return MemberSpec(member_id, member.instance_id, topic_ids, self.targets.get(member_id, {}))

    def _written(self, target: Target) -> str:
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        rows = []
        for topic_id, partitions in target.items():
            numbers = in_set_order(partitions, copied_set_size(len(partitions)))
            rows.append(f"{names.get(topic_id, '?')}:{','.join(map(str, numbers))}")
        return ";".join(sorted(rows))
