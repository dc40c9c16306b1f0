"""The catalog: names, plans and its stored form. Refusals on the wire are tested with the handlers."""

import itertools
import json
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.topics.catalog import BadCatalog, Catalog, NewTopic, Refusal, TopicEntry, invalid_name
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode

LEGAL = "abcXYZ019._-"


def ids():
    numbers = itertools.count(1)
    return lambda: uuid.UUID(int=next(numbers))


def plan(catalog, *names, count=1):
    wanted = [NewTopic(name, count) for name in names]
    return catalog.plan_topics(wanted, ids(), Settings(), [1])


@pytest.mark.parametrize("name", ["a", "...", "A.b_c-9", "x" * 249, "-"])
def test_legal_names(name):
    assert invalid_name(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "٣"])
def test_illegal_names(name):
    assert invalid_name(name)
    (refusal,) = plan(Catalog(), name)
    assert refusal.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_catalog_is_never_changed():
    before = Catalog({"a": TopicEntry("a", uuid.UUID(int=1), 1, {})})
    grown = replace(before, next_producer_id=5)
    after = grown.with_topics([TopicEntry("b", uuid.UUID(int=2), 1, {})], remove=["a"])
    assert (set(before.topics), before.next_producer_id) == ({"a"}, 0)
    assert (set(after.topics), after.next_producer_id) == ({"b"}, 5)


def test_a_refused_topic_takes_no_place_from_a_later_one():
    first, second = plan(Catalog(), "a.b", count=0)[0], plan(Catalog(), "a_b")[0]
    assert isinstance(first, Refusal) and isinstance(second, TopicEntry)
    refused, accepted = Catalog().plan_topics([NewTopic("a.b", 0), NewTopic("a_b", 1)], ids(), Settings(), [1])
    assert isinstance(refused, Refusal) and isinstance(accepted, TopicEntry)


@given(st.lists(st.text(LEGAL, min_size=1, max_size=4), unique=True, max_size=30))
def test_no_two_topics_share_a_metric_name(names):
    entries = [entry for entry in plan(Catalog(), *names) if isinstance(entry, TopicEntry)]
    folded = [entry.name.replace(".", "_") for entry in entries]
    assert len(set(folded)) == len(folded)
    one_by_one = Catalog()
    for name in names:
        (entry,) = plan(one_by_one, name)
        if isinstance(entry, TopicEntry):
            one_by_one = one_by_one.with_topics([entry])
    assert set(one_by_one.topics) == {entry.name for entry in entries}


topics = st.builds(
    lambda homes, has_homes, **row: TopicEntry(**row, partition_count=len(homes), homes=homes if has_homes else ()),
    name=st.text(LEGAL, min_size=1, max_size=8),
    topic_id=st.uuids(),
    configs=st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.text(max_size=5)),
    homes=st.lists(st.integers(1, 5), min_size=1, max_size=60).map(tuple),
    has_homes=st.booleans(),
)


@given(st.lists(topics, unique_by=(lambda t: t.name, lambda t: t.topic_id)), st.integers(0, 2**63 - 1))
def test_what_is_stored_is_read_back(entries, next_producer_id):
    catalog = Catalog({entry.name: entry for entry in entries}, next_producer_id)
    again = Catalog.from_state(json.loads(json.dumps(catalog.state())))
    assert (again.topics, again.next_producer_id) == (catalog.topics, next_producer_id)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"format": 3, "topics": {}, "next_producer_id": 0},
        {
            "format": 2,
            "topics": {"t": {"topic_id": str(uuid.UUID(int=1)), "partitions": 2, "configs": {}, "homes": [1]}},
            "next_producer_id": 0,
        },
        {"format": 1, "next_producer_id": 0},
        {"format": 1, "topics": [], "next_producer_id": 0},
        {"format": 1, "topics": {"t": {"topic_id": "x", "partitions": 1, "configs": {}}}, "next_producer_id": 0},
        {"format": 1, "topics": {}, "next_producer_id": None},
    ],
)
def test_other_documents_are_refused(state):
    with pytest.raises(BadCatalog):
        Catalog.from_state(state)


def test_a_new_broker_has_an_empty_catalog():
    assert (dict(Catalog.from_state(None).topics), Catalog.from_state(None).next_producer_id) == ({}, 0)


def test_settings_of_brokers_and_groups_are_kept():
    catalog = Catalog(broker_configs={"": {"a": "1"}}, group_configs={"g": {"b": "2"}})
    read = Catalog.from_state(json.loads(json.dumps(catalog.state())))
    assert (read.broker_configs, read.group_configs) == ({"": {"a": "1"}}, {"g": {"b": "2"}})
    later = replace(read, next_producer_id=5)
    assert (later.broker_configs, later.group_configs) == (read.broker_configs, read.group_configs)
    assert set(Catalog().state()) == {"format", "next_producer_id", "topics"}


# -- homes


def created(catalog, *names, count=1, nodes=(1, 2, 3)):
    """The catalog with these topics, whose partitions are dealt to the nodes."""
    wanted = [NewTopic(name, count) for name in names]
    return catalog.with_topics(catalog.plan_topics(wanted, uuid.uuid4, Settings(), nodes, nodes))


def homes(catalog):
    return {name: entry.homes for name, entry in catalog.topics.items()}


def test_a_catalog_with_homes_is_refused_by_earlier_releases():
    assert created(Catalog(), "t").state()["format"] == 2
    assert created(Catalog(), "t", nodes=()).state()["format"] == 1
    assert "homes" not in created(Catalog(), "t", nodes=()).state()["topics"]["t"]


def test_nodes_take_turns_and_go_on_where_the_last_topic_ended():
    catalog = created(Catalog(), "a", "b", count=4)
    assert homes(catalog) == {"a": (1, 2, 3, 1), "b": (2, 3, 1, 2)}
    assert homes(created(catalog, "c"))["c"] == (3,)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=12), st.integers(1, 6))
def test_nodes_have_as_many_as_each_other(sizes, nodes):
    """Internal and other topics, each for itself."""
    ids, catalog = tuple(range(1, nodes + 1)), Catalog()
    for number, (grows, count) in enumerate(sizes):
        if grows and number:
            dealer = catalog.dealer(ids)
            name, entry = next(iter(catalog.topics.items()))
            more = entry.partition_count + count
            catalog = catalog.with_topics([catalog.plan_growth(name, more, None, ids, dealer)])
        else:
            catalog = created(catalog, f"t{number}", count=count, nodes=ids)
    offsets = TopicEntry("__consumer_offsets", uuid.uuid4(), 50, {}, catalog.dealer(ids).deal("__consumer_offsets", 50))
    for dealt in ([home for entry in catalog.topics.values() for home in entry.homes], offsets.homes):
        counts = [dealt.count(node) for node in ids]
        assert max(counts) - min(counts) <= 1


def test_a_node_that_has_fewer_gets_what_comes():
    catalog = created(Catalog(), "a", count=3)
    catalog = catalog.with_topics([catalog.topics["a"]._replace(name="b", homes=(1, 1, 1))])
    assert homes(created(catalog, "c", count=6))["c"] == (2, 3, 2, 3, 2, 3)


def test_homes_that_are_named_count():
    wanted = [NewTopic("t", assignments=[(1, [2]), (0, [3])]), NewTopic("u", 2)]
    first, second = Catalog().plan_topics(wanted, ids(), Settings(), [1, 2, 3], [1, 2, 3])
    assert (first.homes, second.homes) == ((3, 2), (1, 1))
    catalog = Catalog({"t": first})
    grown = catalog.plan_growth("t", 4, [[1], [2]], [1, 2, 3], catalog.dealer([1, 2, 3]))
    assert grown.homes == (3, 2, 1, 2)


def test_one_that_follows_is_at_home_where_the_other_is():
    dealer = created(Catalog(), "t").dealer([1, 2, 3])
    offsets = dealer.deal("__consumer_offsets", 5)
    assert offsets == (1, 2, 3, 1, 2)
    assert dealer.deal("__ottla_group_events", 5) == offsets
    assert dealer.deal("__transaction_state", 2) == (3, 3)  # the events have taken their places


def test_a_single_node_grows_to_several_and_back():
    single = created(Catalog(), "t", "__ottla_group_events", nodes=())
    single = single.with_topics([TopicEntry("__consumer_offsets", uuid.uuid4(), 4, {})])
    several = single.with_homes(7)
    assert homes(several) == {"t": (7,), "__ottla_group_events": (7,) * 4, "__consumer_offsets": (7,) * 4}
    assert several.topics["__ottla_group_events"].partition_count == 4
    assert several.with_homes(1) is several
    assert set(homes(several.without_homes()).values()) == {()}
    assert single.without_homes() is single


@pytest.mark.parametrize("nodes", [[1], [1, 2, 3]])
def test_there_is_one_replica(nodes):
    (refusal,) = Catalog().plan_topics([NewTopic("t", 1, 2)], ids(), Settings(), nodes)
    assert refusal.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    text = "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because"
    assert refusal.message.startswith(text)
    assert ("Use 1: with --nodes there are no replicas." in refusal.message) == (len(nodes) > 1)
    (refusal,) = Catalog().plan_topics([NewTopic("t", 1)], ids(), Settings(default_replication_factor=2), nodes)
    assert refusal.message.startswith(text)
    assert ("Use 1 in default.replication.factor: with" in refusal.message) == (len(nodes) > 1)
    (refusal,) = Catalog().plan_topics([NewTopic("t", assignments=[(0, [1, 2])])], ids(), Settings(), nodes)
    assert refusal.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
