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
    TopicEntry,
    st.text(LEGAL, min_size=1, max_size=8),
    st.uuids(),
    st.integers(1, 60),
    st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.text(max_size=5)),
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
        {"format": 2, "topics": {}, "next_producer_id": 0},
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
