"""Load without a client: single requests, each answered or not, over a connection that is made anew when it breaks."""

from __future__ import annotations

import threading
from functools import partial

from tests.chaos.events import Acked, Committed, Saw, tell
from tests.chaos.load import PARTITIONS, Role, role_of, run_threads, value_of
from tests.support.client import Client, batch

TOPIC, GROUP = "raw-once", "raw"


class Raw:
    """Appends a record, reads it back and commits it, one after another: each is stored once."""

    def __init__(self) -> None:
        self._number = 0
        self._seen = [0] * PARTITIONS

    def go_on(self, client: Client) -> None:
        """Take up whatever was under way when the last connection broke: it may have been stored."""
        partition = self._number % PARTITIONS
        self._read(client, partition)
        self._number += self._seen[partition] > self._number // PARTITIONS

    def step(self, client: Client) -> None:
        partition, value = self._number % PARTITIONS, value_of(self._number)
        told = client.produce(TOPIC, batch(value.encode(), key=None), partition=partition)
        if told.error_code:
            raise OSError(f"produce: error {told.error_code}")
        tell(Acked(TOPIC, partition, told.base_offset, value))
        self._number += 1
        self._read(client, partition)
        offset = self._seen[partition]
        if code := client.commit(GROUP, TOPIC, offset, partition_index=partition):
            raise OSError(f"commit: error {code}")
        tell(Committed(GROUP, TOPIC, partition, offset))

    def _read(self, client: Client, partition: int) -> None:
        records, self._seen[partition] = client.read_log(TOPIC, partition, self._seen[partition])
        tell(*(Saw(GROUP, TOPIC, partition, one.offset, (one.value or b"").decode()) for one in records))


def work(role: Role, stopping: threading.Event) -> None:
    raw = Raw()
    while not stopping.is_set():
        try:
            with Client(int(role.bootstrap.rpartition(":")[2])) as client:
                raw.go_on(client)
                while not stopping.wait(0.01):
                    raw.step(client)
        except OSError:
            stopping.wait(0.02)


if __name__ == "__main__":
    mine = role_of()
    run_threads(mine, [], [partial(work, mine)])
