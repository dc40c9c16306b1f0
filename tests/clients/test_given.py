"""Arguments of calls: a wrong one is refused at once, in words that say what is allowed."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from ottla.clients import Admin, Consumer, OptionError, TopicPartition

ADMIN: list[tuple[Callable[[Any, Any], Awaitable[Any]], str]] = [
    (lambda admin, text: admin.create_topics(text), "topics"),
    (lambda admin, text: admin.delete_topics(text), "topics"),
    (lambda admin, text: admin.create_partitions(text), "counts"),
    (lambda admin, text: admin.describe_topics(text), "topics"),
    (lambda admin, text: admin.list_offsets(text), "wanted"),
    (lambda admin, text: admin.delete_records(text), "before"),
    (lambda admin, text: admin.list_groups(states=text), "states"),
    (lambda admin, text: admin.list_groups(types=text), "types"),
    (lambda admin, text: admin.describe_groups(text), "group_ids"),
    (lambda admin, text: admin.delete_groups(text), "group_ids"),
    (lambda admin, text: admin.list_group_offsets("g", text), "partitions"),
    (lambda admin, text: admin.alter_group_offsets("g", text), "offsets"),
    (lambda admin, text: admin.delete_group_offsets("g", text), "partitions"),
    (lambda admin, text: admin.describe_configs(topics=text), "topics"),
    (lambda admin, text: admin.describe_configs(brokers=text), "brokers"),
    (lambda admin, text: admin.describe_configs(groups=text), "groups"),
    (lambda admin, text: admin.describe_configs(brokers=[1], keys=text), "keys"),
    (lambda admin, text: admin.alter_configs(topics=text), "topics"),
    (lambda admin, text: admin.incremental_alter_configs(brokers=text), "brokers"),
    (lambda admin, text: admin.alter_client_quotas(text, {}), "entity"),
    (lambda admin, text: admin.alter_client_quotas({}, text), "quotas"),
    (lambda admin, text: admin.list_transactions(states=text), "states"),
    (lambda admin, text: admin.list_transactions(producer_ids=text), "producer_ids"),
    (lambda admin, text: admin.describe_transactions(text), "transactional_ids"),
    (lambda admin, text: admin.describe_producers(text), "partitions"),
    (lambda admin, text: admin.abort_transaction(text, producer_id=1, producer_epoch=0), "partition"),
]
CONSUMER: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda consumer, text: consumer.subscribe(text), "topics"),
    (lambda consumer, text: consumer.assign(text), "partitions"),
    (lambda consumer, text: consumer.getmany(text), "partition"),
    (lambda consumer, text: consumer.getone(text), "partition"),
    (lambda consumer, text: consumer.seek_to_beginning(text), "partition"),
    (lambda consumer, text: consumer.seek_to_end(text), "partition"),
    (lambda consumer, text: consumer.pause(text), "partition"),
    (lambda consumer, text: consumer.resume(text), "partition"),
    (lambda consumer, text: consumer.seek(text, 0), "partition"),
    (lambda consumer, text: consumer.highwater(text), "partition"),
    (lambda consumer, text: consumer.beginning_offsets(text), "partitions"),
    (lambda consumer, text: consumer.end_offsets(text), "partitions"),
    (lambda consumer, text: consumer.offsets_for_times(text), "timestamps"),
]


def _id(one: object) -> str:
    return one if isinstance(one, str) else ""


@pytest.mark.parametrize(
    ("client", "call", "key"),
    [(Admin, *row) for row in ADMIN] + [(partial(Consumer, group_id="g"), *row) for row in CONSUMER],
    ids=_id,
)
async def test_a_text_is_not_taken_for_its_letters(
    client: Callable[[], Any], call: Callable[[Any, Any], Awaitable[Any]], key: str
) -> None:
    with pytest.raises(OptionError, match=f"^{key}='xy': allowed is "):
        await call(client(), "xy")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("xy", r"topics='xy': allowed is a list of names, such as \['xy'\]"),
        (5, "topics=5: allowed is a list of names"),
        (["x", 5], r"topics=\['x', 5\]: 5 cannot be one; allowed is a list of names"),
        (["x", ["y"]], r"\['y'\] cannot be one"),
        (["\ud800"], "cannot be one"),
        (["x" * 40_000], "cannot be one"),
    ],
)
async def test_names(given: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        await Admin().delete_topics(given)


@pytest.mark.parametrize(
    "given", [TopicPartition("orders", 0), ("orders", 0), "orders", ["orders"], [("orders", "0")], [3], 3]
)
def test_partitions(given: Any) -> None:
    with pytest.raises(OptionError, match=r"allowed is a .*\('orders', 0\)"):
        Consumer().assign(given)
