"""A client without connections: requests are caught, and answered when the test says."""

import asyncio
from typing import Any

from ottla.clients.client import Client
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.options import ClientOptions
from ottla.clients.structs import BrokerInfo, PartitionInfo, TopicInfo
from ottla.clients.tasks import Tasks
from ottla.protocol.primitives import ZERO_UUID


class Caught:
    """A request on its way."""

    def __init__(self, node_id: int, request: Any) -> None:
        self.node_id = node_id
        self.request = request
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def answer(self, answer: Any) -> None:
        self.outcome.set_result(answer)
        await turn()

    async def fail(self, error: Exception) -> None:
        self.outcome.set_exception(error)
        await turn()


async def turn() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


class FakeClient:
    """The part of `Client` that fetcher and positions use. Brokers 1 and 2 exist; time stands still unless moved."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.client_id = "fake"
        self.cluster = ClusterMetadata()
        self.cluster.brokers = {n: BrokerInfo(n, "h", n) for n in (1, 2)}
        self.tasks = Tasks()
        self.refreshes = 0
        self.now = 1_000.0
        self.open: list[Caught] = []

    def now_ms(self) -> float:
        return self.now

    tries = Client.tries

    def request_refresh(self) -> None:
        self.refreshes += 1

    async def ask(self, topics: Any) -> None:
        self.refreshes += 1

    async def send(self, node_id: int, request: Any, answer: Any, **options: Any) -> Any:
        caught = Caught(node_id, request)
        self.open.append(caught)
        return await caught.outcome

    def lead(self, topic: str, *leaders: tuple[int, int]) -> None:
        """Give a topic these leaders and epochs."""
        partitions = {p: PartitionInfo(topic, p, node, epoch, (), ()) for p, (node, epoch) in enumerate(leaders)}
        self.cluster.topics[topic] = TopicInfo(topic, ZERO_UUID, False, partitions)

    async def one(self) -> Caught:
        """The one request that is under way."""
        await turn()
        [caught] = self.open
        self.open = []
        return caught

    async def none(self) -> None:
        await turn()
        assert self.open == []
