"""Reading brokers with single requests, so that no client's cleverness stands between the test and what is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.protocol.apis import ApiKey
from ottla.protocol.records import Record
from tests.chaos.ledger import Ledger, Place
from tests.support.client import Client

T = TypeVar("T")
PATIENCE_S = 30.0
HEARD_S = 0.3
"""By then every node has heard of what one of them has changed."""


class Reader:
    """Asks each node what it answers for.

    Args:
        bootstrap: the addresses of all nodes, on this machine.
    """

    def __init__(self, bootstrap: str) -> None:
        self._ports = [int(address.rpartition(":")[2]) for address in bootstrap.split(",")]
        self._answered: dict[object, int] = {}

    def _ask(self, what: object, question: Callable[[Client], T], ports: Sequence[int] = ()) -> T:
        """The answer of the node that has one; the others refuse, and so may that one, just after it has come back.

        Raises:
            OSError: all refuse.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for port in sorted(ports or self._ports, key=lambda port: port != self._answered.get(what)):
                try:
                    with Client(port) as client:
                        answer = question(client)
                except OSError as error:
                    refused = error
                else:
                    self._answered[what] = port
                    return answer
            if time.monotonic() > deadline:
                raise refused
            time.sleep(0.05)

    def read_log(self, topic: str, partition: int, start: int = 0, *, level: int = 0) -> tuple[list[Record], int]:
        """As of `Client`."""
        return self._ask((topic, partition), lambda client: client.read_log(topic, partition, start, level=level))

    def end(self, topic: str, partition: int) -> int:
        """The high watermark."""

        def ask(client: Client) -> int:
            answer = client.offset(topic, partition=partition)
            if answer.error_code:
                raise OSError(f"list offsets: error {answer.error_code}")
            return int(answer.offset)

        return self._ask((topic, partition), ask)

    def all_committed(self, group: str) -> dict[Place, int]:
        """As of `Client`."""
        return self._ask(group, lambda client: client.all_committed(group))

    def generations(self, group: str) -> list[int]:
        """As of `Client`."""
        return self._ask(group, lambda client: client.generations(group))

    def topics(self) -> list[dict[str, int]]:
        """All topics with their partition counts, as each node knows them."""
        if len(self._ports) > 1:
            time.sleep(HEARD_S)

        def ask(client: Client) -> dict[str, int]:
            return {topic.name: len(topic.partitions) for topic in client.metadata(version=9).topics}

        return [self._ask("topics", ask, [port]) for port in self._ports]

    def transactions(self) -> list[Any]:
        """Those of all nodes."""

        def ask(client: Client) -> list[Any]:
            answer = client.call(ApiKey.LIST_TRANSACTIONS, 0)
            if answer.error_code:
                raise OSError(f"list transactions: error {answer.error_code}")
            return list(answer.transaction_states)

        return [one for port in self._ports for one in self._ask("transactions", ask, [port])]


def read_on(client: Reader, ledger: Ledger, *, again: bool = False) -> None:
    """Read what is new of all known places, or everything ``again``, and check it."""
    for place, values in ledger.stored.items():
        promised = ledger.promised(place)
        first = 0 if again else len(values)
        records, _ = client.read_log(*place, first)
        ledger.read(place, first, [(one.offset, (one.value or b"").decode()) for one in records])
        ledger.check_acked(place, promised)


def read_offsets(client: Reader, ledger: Ledger, *, final: bool = False) -> None:
    """Read the committed offsets of all groups that committed any, and check them."""
    for group, promised in ledger.committed().items():
        ledger.found_offsets(group, promised, client.all_committed(group), final=final)


def read_topics(client: Reader, ledger: Ledger) -> None:
    """Read which topics there are, and check them."""
    made, gone = ledger.topics()
    for found in client.topics():
        ledger.found_topics(made, gone, found)


def read_generations(client: Reader, ledger: Ledger) -> None:
    """Read what the coordinator wrote about all groups, and check it."""
    for group in ledger.committed():
        ledger.found_generations(group, client.generations(group))


def unfinished_transactions(client: Reader) -> list[str]:
    """Transactions that are not ended yet, or whose end is not written everywhere."""
    done = {"Empty", "CompleteCommit", "CompleteAbort"}
    return [
        f"{one.transactional_id} is {one.transaction_state}"
        for one in client.transactions()
        if one.transaction_state not in done
    ]
