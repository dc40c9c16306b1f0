"""`ottla topics` against a broker."""

from __future__ import annotations

from typing import Any


def test_list_shows_every_topic(ottla: Any) -> None:
    assert ottla.rows("topics", "list") == [
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        ["__consumer_offsets", "50", "1", "internal"],
        ["orders", "3", "1"],
    ]
    names = [row["topic"] for row in ottla.json("topics", "list", "--exclude-internal")]
    assert names == ["orders"]


def test_create_takes_partitions_and_settings_and_describe_shows_them(ottla: Any) -> None:
    text = ottla.run("topics", "create", "a", "-t", "b", "--partitions", "2", "--config", "retention.ms=1000").stdout
    assert text == "Created topic 'a' with 2 partitions.\nCreated topic 'b' with 2 partitions.\n"
    (topic,) = ottla.json("topics", "describe", "a")
    assert topic["partition_count"] == 2
    assert topic["configs"] == {"retention.ms": "1000"}
    assert [row["partition"] for row in topic["partitions"]] == [0, 1]


def test_without_a_count_the_broker_chooses(ottla: Any) -> None:
    assert ottla.run("topics", "create", "a").stdout == "Created topic 'a' with 1 partition.\n"


def test_creating_a_topic_twice_fails_unless_that_is_allowed(ottla: Any) -> None:
    refused = ottla.run("topics", "create", "orders", "other", expect=1)
    assert "Created topic 'other'" in refused.stdout
    text = "Error: Topic 'orders' exists already; with --if-not-exists that is no failure.\n"
    assert refused.stderr == text
    assert ottla.run("topics", "create", "orders", "--if-not-exists").stdout == "Topic 'orders' exists already.\n"


def test_a_setting_that_does_not_exist_is_named(ottla: Any) -> None:
    assert "nonsense" in ottla.run("topics", "create", "a", "--config", "nonsense=1", expect=1).stderr


def test_describe_counts_records(ottla: Any) -> None:
    ottla.send("orders", b"a\nb\nc\n", "-p", "1")
    rows = ottla.rows("topics", "describe", "orders")
    assert rows[0][:4] == ["Topic", "orders:", "3", "partitions,"]
    assert [row[0] + ":" + row[-1] for row in rows[-3:]] == ["0:0", "1:3", "2:0"]


def test_describe_of_everything_leaves_nothing_out(ottla: Any) -> None:
    assert [topic["topic"] for topic in ottla.json("topics", "describe")] == ["__consumer_offsets", "orders"]


def test_a_name_that_no_topic_may_have_is_refused_in_a_sentence(ottla: Any) -> None:
    refused = ottla.run("topics", "create", "or ders", expect=1).stderr
    assert refused == (
        "Error: Cannot create topic 'or ders': topic name has characters other than "
        "ASCII letters, digits, '.', '_' and '-'.\n"
    )


def test_grow_adds_partitions_and_never_takes_any(ottla: Any) -> None:
    text = ottla.run("topics", "grow", "orders", "--partitions", "5").stdout
    assert text == "Topic 'orders' has grown from 3 to 5 partitions.\n"
    for fewer in ("4", "5"):
        refused = ottla.run("topics", "grow", "orders", "--partitions", fewer, expect=1).stderr
        said = "Topic 'orders' has 5 partitions already. A topic can only grow: say --partitions 6 or more."
        assert refused == f"Error: {said}\n"


def test_delete_removes_topics(ottla: Any) -> None:
    assert ottla.run("topics", "delete", "orders").stdout == "Deleted topic 'orders'.\n"
    assert ottla.json("topics", "list", "--exclude-internal") == []
    assert "There are no topics yet" in ottla.run("topics", "list", "--exclude-internal").stderr


def test_a_missing_topic_is_refused_before_anything_is_done(ottla: Any) -> None:
    for words in (["describe", "nope"], ["delete", "orders", "nope"], ["grow", "nope", "--partitions", "9"]):
        refused = ottla.run("topics", *words, expect=1)
        assert "There is no topic 'nope'." in refused.stderr and "ottla topics list" in refused.stderr
    assert [row["topic"] for row in ottla.json("topics", "list", "--exclude-internal")] == ["orders"]
    assert ottla.run("topics", "delete", "nope", "orders", "--if-exists").exit_code == 0
