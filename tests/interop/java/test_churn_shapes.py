"""How the churn run tells whether two lines of two logs say the same."""

from __future__ import annotations

from pathlib import Path

from tests.interop.java.churn import shape, shapes

FETCH = (
    "[Consumer clientId={0}, groupId=group-{1}] Received unknown topic or partition error in fetch for partition {2}"
)


def test_ids_numbers_and_names_make_no_difference() -> None:
    first = shape(FETCH.format("reader-4", 1, "churn-temp-0-3"))
    assert first == shape(FETCH.format("consumer-ab12-7", 0, "churn-cooperative-11"))
    member = "Member reader-3-{} in generation {}"
    assert shape(member.format("0f8fad5b-d9cb-469f-a165-70867728950e", 4)) == shape(
        member.format("7c9e6679-7425-40de-944b-e07fc1f90ae7", 1234)
    )
    left = "LeaveGroup request with Generation{{generationId={}, memberId='{}', protocol='{}'}} failed"
    assert shape(left.format(4, "", "null")) == shape(left.format(17, "reader-3-ab", "sticky"))
    assert shape("topic id yMtdsYNCSqW8mZbZ4YbT2Q of N") == shape("topic id P94dJInMRWimAGZkQEozdw of N")


def test_the_words_of_the_broker_make_no_difference() -> None:
    refused = "[Consumer clientId=a] ConsumerGroupHeartbeatRequest failed due to unreleased instance id fixed-1"
    assert shape(f"{refused}: Static member x cannot join") == shape(f"{refused}: Instance fixed-1 is member y")
    assert shape(f"{refused}: the words") != shape(refused.replace("unreleased", "fenced") + ": the words")


def test_what_is_committed_makes_no_difference() -> None:
    place = "churn-eager-{}=OffsetAndMetadata{{offset={}, leaderEpoch={}, metadata=''}}"
    failed = "[Consumer clientId=a] Auto-commit of offsets {{{}}} failed"
    both = f"{place.format(0, 7, 0)}, {place.format(1, 12, 'null')}"
    assert shape(failed.format(place.format(3, 1, 0))) == shape(failed.format(both))


def test_how_many_are_listed_makes_no_difference() -> None:
    lost = "Lost partitions [{}]"
    one, three = "churn-eager-0", "churn-eager-0, churn-eager-1, churn-static-3"
    assert shape(lost.format(one)) == shape(lost.format(three))


def test_errors_make_a_difference() -> None:
    answer = (
        "Got error produce response with correlation id {} on topic-partition churn-eager-0, retrying ({} left). {}"
    )
    assert shape(answer.format(7, 3, "Error: UNKNOWN_TOPIC_ID")) != shape(answer.format(7, 3, "Error: INVALID_RECORD"))


def test_only_warnings_and_errors_of_the_clients_count(tmp_path: Path) -> None:
    log = tmp_path / "clients.log"
    log.write_text(
        "[reader-1] INFO org.apache.kafka.clients.NetworkClient - Node 1 disconnected.\n"
        "[reader-1] WARN org.apache.kafka.clients.NetworkClient - Connection to node 1 could not be established.\n"
        "[reader-2] WARN org.apache.kafka.clients.NetworkClient - Connection to node 2 could not be established.\n"
        "\tat org.apache.kafka.clients.NetworkClient.poll(NetworkClient.java:1)\n"
        "[main] WARN ottla.churn - ours\n"
        "[reader-1] ERROR org.apache.kafka.clients.consumer.KafkaConsumer - gone\n",
        "utf-8",
    )
    counts, examples = shapes([log])
    warning = "WARN NetworkClient: Connection to node N could not be established."
    assert counts == {warning: 2, "ERROR KafkaConsumer: gone": 1}
    assert examples[warning].endswith("Connection to node 1 could not be established.")
