"""The sticky assignors: even, sticky, never two owners; and beside kafka-python's on the same input."""

from collections.abc import Mapping
from typing import Any

from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1 as AiokafkaUserData
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as KafkaPythonCooperative
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData as KafkaPythonUserData

from ottla.clients.assignors import CooperativeStickyAssignor, MemberSubscription, StickyAssignor
from ottla.clients.assignors.sticky import StickyUserData, grouped, sticky_assignments
from ottla.protocol.consumer_protocol import ConsumerTopicPartitions
from ottla.protocol.records import TopicPartition
from tests.clients.assignor_cases import TOPICS, Cluster, Counts, Members, as_kafka_python, counts_and_members

Held = dict[str, list[TopicPartition]]


def no_claims(members: Members) -> dict[str, tuple[list[TopicPartition], int]]:
    return {member_id: ([], -1) for member_id in members}


def assert_balanced(counts: Counts, members: Members, held: Mapping[str, list[TopicPartition]]) -> None:
    """No partition could move to a member that may have it and has at least two fewer than its owner."""
    for owner, partitions in held.items():
        for tp in partitions:
            for other, member in members.items():
                if tp.topic in member.topics:
                    assert len(held[other]) >= len(partitions) - 1, (tp, owner, other)


@given(case=counts_and_members(static=False))
def test_balanced_from_nothing(case: Any) -> None:
    counts, members = case
    assert_balanced(counts, members, sticky_assignments(counts, members, no_claims(members)))


@given(case=counts_and_members(static=False, same_topics=True), data=st.data())
def test_with_one_subscription_for_all_as_few_as_possible_move(case: Any, data: st.DataObject) -> None:
    """A member keeps what it held up to its share; some keep one more where that does not divide evenly."""
    counts, members = case
    topics = next(iter(members.values())).topics
    partitions = [TopicPartition(t, p) for t in topics for p in range(counts.get(t, 0))]
    owners = {tp: data.draw(st.sampled_from([*members, None])) for tp in partitions}
    claims = {member_id: ([tp for tp in partitions if owners[tp] == member_id], 1) for member_id in members}
    held = sticky_assignments(counts, members, claims)
    share, extra = divmod(len(partitions), len(members))
    assert sorted(len(tps) for tps in held.values()) == [share] * (len(members) - extra) + [share + 1] * extra
    most = sorted((len(claims[m][0]) for m in members), reverse=True)
    best = sum(min(count, share + (place < extra)) for place, count in enumerate(most))
    assert sum(len(set(held[m]) & set(claims[m][0])) for m in members) == best


@given(case=counts_and_members(static=False), data=st.data())
def test_what_is_balanced_stays(case: Any, data: st.DataObject) -> None:
    counts, members = case
    held = sticky_assignments(counts, members, no_claims(members))
    assert sticky_assignments(counts, members, {m: (held[m], 4) for m in members}) == held


@given(case=counts_and_members(static=False), data=st.data())
def test_a_member_that_leaves_moves_only_what_it_had(case: Any, data: st.DataObject) -> None:
    """With one subscription for all: what the others hold they keep."""
    counts, members = case
    members = {m: MemberSubscription(TOPICS) for m in members}
    if len(members) < 2:
        return
    held = sticky_assignments(counts, members, no_claims(members))
    gone = data.draw(st.sampled_from(sorted(members)))
    rest = {m: s for m, s in members.items() if m != gone}
    after = sticky_assignments(counts, rest, {m: (held[m], 1) for m in rest})
    assert all(set(held[m]) <= set(after[m]) for m in rest)
    assert_balanced(counts, rest, after)


def test_the_later_generation_owns_and_equal_ones_lapse() -> None:
    a0, a1, a2 = (TopicPartition("a", p) for p in range(3))
    members = {m: MemberSubscription(["a"]) for m in ("x", "y", "z")}
    claims = {"x": ([a0, a1], 1), "y": ([a0], 2), "z": ([a2], 2)}
    assert sticky_assignments({"a": 3}, members, claims) == {"x": [a1], "y": [a0], "z": [a2]}
    tied = {"x": ([a1], 2), "y": ([a1, a0], 2), "z": ([a2], 2)}
    assert sticky_assignments({"a": 3}, members, tied) == {"x": [a1], "y": [a0], "z": [a2]}, "a1 is nobody's"


# the sticky assignor and its user data


def play_sticky(counts: Counts, members: Members, rounds: list[set[str]]) -> list[Held]:
    """Rebalances of a group whose members come and go, each with an assignor of its own."""
    assignors: dict[str, StickyAssignor] = {}
    played: list[Held] = []
    for generation, present in enumerate(rounds, 1):
        group = {}
        for member_id in sorted(present):
            assignor = assignors.setdefault(member_id, StickyAssignor())
            topics = members[member_id].topics
            group[member_id] = MemberSubscription(topics, assignor.user_data(topics))
        answer = StickyAssignor().assign(counts, group)
        for member_id, partitions in answer.items():
            assignors[member_id].on_assignment(partitions, generation)
        played.append(answer)
    return played


def test_sticky_by_its_user_data() -> None:
    members = {m: MemberSubscription(["a"]) for m in "xyz"}
    first, second, third = play_sticky({"a": 6}, members, [{"x", "y"}, {"x", "y", "z"}, {"y", "z"}])
    assert [len(first[m]) for m in "xy"] == [3, 3]
    assert all(set(second[m]) <= set(first[m]) and len(second[m]) == 2 for m in "xy")
    assert all(set(second[m]) <= set(third[m]) and len(third[m]) == 3 for m in "yz")


def test_user_data_are_read_by_aiokafka_as_kafka_writes_them() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data(["a"]) is None
    assignor.on_assignment([TopicPartition("a", 1), TopicPartition("a", 0)], 7)
    parsed = AiokafkaUserData.decode(assignor.user_data(["a"]) or b"")
    assert (parsed.previous_assignment, parsed.generation) == ([("a", [0, 1])], 7)


def test_user_data_of_aiokafka_and_of_kafka_python_are_read() -> None:
    a = [TopicPartition("a", p) for p in range(4)]
    members = {
        "x": MemberSubscription(["a"], AiokafkaUserData([("a", [1, 3])], 5).encode()),
        "y": MemberSubscription(["a"], KafkaPythonUserData([("a", [0, 2])], 5).encode()),
    }
    assert StickyAssignor().assign({"a": 4}, members) == {"x": [a[1], a[3]], "y": [a[0], a[2]]}


def test_old_and_unreadable_user_data() -> None:
    a0, a1 = TopicPartition("a", 0), TopicPartition("a", 1)
    old = StickyUserData.layout(0).encode(
        StickyUserData(previous_assignment=[ConsumerTopicPartitions(topic="a", partitions=[1])])
    )
    members = {"x": MemberSubscription(["a"], old), "y": MemberSubscription(["a"], b"\xff\xff\xff")}
    assert StickyAssignor().assign({"a": 2}, members) == {"x": [a1], "y": [a0]}


@given(case=counts_and_members(static=False, same_topics=True), data=st.data())
def test_as_even_and_as_sticky_as_aiokafka(case: Any, data: st.DataObject) -> None:
    counts, members = case
    topics = next(iter(members.values())).topics
    held = sticky_assignments(counts, members, no_claims(members))
    stay = data.draw(st.sets(st.sampled_from(sorted(members)), min_size=1))
    group = {m: MemberSubscription(topics, _user_data(held[m])) for m in stay}
    group["newcomer"] = MemberSubscription(topics)
    ours = StickyAssignor().assign(counts, group)
    metadata = {m: ConsumerProtocolMemberMetadata(1, list(topics), one.user_data or b"") for m, one in group.items()}
    answer = AiokafkaSticky.assign(Cluster(counts), metadata)
    theirs = {m: [TopicPartition(t, p) for t, ps in one.assignment for p in ps] for m, one in answer.items()}
    assert sorted(map(len, ours.values())) == sorted(map(len, theirs.values()))
    assert _kept(held, ours) >= _kept(held, theirs)


def _user_data(partitions: list[TopicPartition]) -> bytes:
    data: bytes = StickyUserData.layout(1).encode(StickyUserData(previous_assignment=grouped(partitions), generation=1))
    return data


def _pairs(assignment: Any) -> list[tuple[str, list[int]]]:
    return [one if isinstance(one, tuple) else (one.topic, one.partitions) for one in assignment.assigned_partitions]


def _kept(before: Mapping[str, list[TopicPartition]], after: Mapping[str, list[TopicPartition]]) -> int:
    return sum(len(set(before.get(m, ())) & set(tps)) for m, tps in after.items())


# cooperative


def settle(counts: Counts, members: Members, held: Held, generation: int) -> tuple[Held, int, int]:
    """Rebalance until nobody has to give anything up. Checks that nothing ever has two owners."""
    for rounds in range(1, 6):
        group = {
            m: MemberSubscription(members[m].topics, None, held.get(m, ()), generation if held.get(m) else -1)
            for m in members
        }
        answer = CooperativeStickyAssignor().assign(counts, group)
        for member_id, given_now in answer.items():
            for other, partitions in held.items():
                if other != member_id and other in members:
                    assert not set(given_now) & set(partitions), "given to one while another holds it"
        revoked = any(set(held.get(m, ())) - set(answer[m]) for m in members)
        held, generation = answer, generation + 1
        if not revoked:
            return held, rounds, generation
    raise AssertionError("does not come to rest")


@given(case=counts_and_members(static=False), more=counts_and_members(static=False))
def test_cooperative_comes_to_rest_balanced_in_two_rounds(case: Any, more: Any) -> None:
    """Whatever the change of members and topics: one round to revoke, one to assign, and nothing moves while held."""
    counts, members = case
    held, rounds, generation = settle(counts, members, {}, 1)
    assert rounds == 1
    new_counts, new_members = more
    counts = {**counts, **new_counts}
    kept = {m: [tp for tp in tps if tp.topic in new_members[m].topics] for m, tps in held.items() if m in new_members}
    held, rounds, _ = settle(counts, new_members, kept, generation)
    assert rounds <= 2
    assert_balanced(counts, new_members, held)
    assert sorted(tp for tps in held.values() for tp in tps) == sorted(
        TopicPartition(t, p)
        for t in {t for m in new_members.values() for t in m.topics}
        for p in range(counts.get(t, 0))
    )


def test_cooperative_takes_away_before_it_gives() -> None:
    a = [TopicPartition("a", p) for p in range(4)]
    group = {"x": MemberSubscription(["a"], None, a, 3), "y": MemberSubscription(["a"])}
    assert CooperativeStickyAssignor().assign({"a": 4}, group) == {"x": a[:2], "y": []}
    group = {"x": MemberSubscription(["a"], None, a[:2], 4), "y": MemberSubscription(["a"], None, [], 4)}
    assert CooperativeStickyAssignor().assign({"a": 4}, group) == {"x": a[:2], "y": a[2:]}


def test_cooperative_ignores_the_claim_of_an_old_generation() -> None:
    a = [TopicPartition("a", p) for p in range(2)]
    group = {"old": MemberSubscription(["a"], None, a, 3), "new": MemberSubscription(["a"], None, a, 5)}
    assert CooperativeStickyAssignor().assign({"a": 2}, group) == {"old": [], "new": a[:1]}


def test_cooperative_reads_the_generation_from_user_data_of_old_clients() -> None:
    a = [TopicPartition("a", p) for p in range(2)]
    group = {
        "old": MemberSubscription(["a"], (3).to_bytes(4, "big"), a),
        "new": MemberSubscription(["a"], (5).to_bytes(4, "big"), a),
    }
    assert CooperativeStickyAssignor().assign({"a": 2}, group)["new"] == a[:1]


def test_cooperative_tells_its_generation() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.user_data(["a"]) == b"\xff\xff\xff\xff"
    assignor.on_assignment([], 9)
    assert assignor.user_data(["a"]) == b"\x00\x00\x00\x09"


@given(case=counts_and_members(static=False, same_topics=True))
def test_cooperative_moves_no_more_than_kafka_python(case: Any) -> None:
    counts, members = case
    topics = next(iter(members.values())).topics
    held, _, generation = settle(counts, members, {}, 1)
    group = {m: MemberSubscription(topics, None, held[m], generation) for m in members}
    group["newcomer"] = MemberSubscription(topics)
    answer = KafkaPythonCooperative().assign(Cluster(counts), as_kafka_python(group, version=2))
    theirs = {m: [TopicPartition(t, p) for t, ps in _pairs(one) for p in ps] for m, one in answer.items()}
    assert _kept(held, CooperativeStickyAssignor().assign(counts, group)) >= _kept(held, theirs)
