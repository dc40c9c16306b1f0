"""Reading a broker with single requests, so that no client's cleverness stands between the test and what is stored."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.chaos.ledger import Ledger
from tests.support.client import Client


def read_on(client: Client, ledger: Ledger, *, again: bool = False) -> None:
    """Read what is new of all known places, or everything ``again``, and check it."""
    for place, values in ledger.stored.items():
        promised = ledger.promised(place)
        first = 0 if again else len(values)
        records, _ = client.read_log(*place, first)
        ledger.read(place, first, [(one.offset, (one.value or b"").decode()) for one in records])
        ledger.check_acked(place, promised)


def read_offsets(client: Client, ledger: Ledger, *, final: bool = False) -> None:
    """Read the committed offsets of all groups that committed any, and check them."""
    for group, promised in ledger.committed().items():
        ledger.found_offsets(group, promised, client.all_committed(group), final=final)


def read_topics(client: Client, ledger: Ledger) -> None:
    """Read which topics there are, and check them."""
    made, gone = ledger.topics()
    topics = client.metadata(version=9).topics
    ledger.found_topics(made, gone, {topic.name: len(topic.partitions) for topic in topics})


def read_generations(client: Client, ledger: Ledger) -> None:
    """Read what the coordinator wrote about all groups, and check it."""
    for group in ledger.committed():
        ledger.found_generations(group, client.generations(group))


def unfinished_transactions(client: Client) -> list[str]:
    """Transactions that are not ended yet, or whose end is not written everywhere."""
    answer = client.call(ApiKey.LIST_TRANSACTIONS, 0)
    done = {"Empty", "CompleteCommit", "CompleteAbort"}
    return [
        f"{one.transactional_id} is {one.transaction_state}"
        for one in answer.transaction_states
        if one.transaction_state not in done
    ]
