"""A broker that is one of three nodes: the first. The second is up, the third is down.

Partitions of every topic are at home by turns: partition 0 here, 1 at the second node, 2 at the third, 3 here.
"""

from ottla.broker.cluster.placement import Static
from ottla.broker.core.topics.partition import Standing
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.handlers.conftest import World

HERE, THERE, DOWN = 1, 2, 3
NODES = (HERE, THERE, DOWN)
EPOCHS = {HERE: 0, THERE: 7, DOWN: 4}


def row(node_id):
    """What the supervisor says of a node."""
    return {
        "node_id": node_id,
        "state": "down" if node_id == DOWN else "up",
        "epoch": EPOCHS[node_id],
        "endpoints": {"PLAINTEXT": ["", 9091 + node_id]},
    }


class Spread(World):
    """See the module. Topics have three partitions unless told otherwise, those of the coordinators as well."""

    def __init__(self, **settings):
        counts = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3}
        super().__init__(**counts | settings)
        self.rows = {node_id: row(node_id) for node_id in NODES}
        self.placement = Static(HERE, self.document)

    @property
    def document(self):
        return {"format": 1, "nodes": list(self.rows.values())}

    def turn(self, node_id, **changed):
        """Let the supervisor say something else of a node."""
        self.rows[node_id] |= changed
        self.placement.read(self.document)

    async def topic(self, name="t", partitions=3, **configs):
        return await super().topic(name, partitions, **configs)

    async def coordinate_transactions(self):
        """Let the topic of transactions come to be, of whose partitions the first is coordinated here."""
        self.transactions.prepare(lambda error: None)
        await self.idle()

    def lose(self, partition):
        """Another node leads a partition from now on."""
        tp = partition.tp
        if tp.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self.host.give_up(tp.topic, tp.partition)
        self.topics.lose(partition)

    def reload(self, topic, index):
        """Let a shard be loading, as long as nobody says that it is loaded."""
        machine = self.host.log_of(topic).machine
        self.host.give_up(topic, index)
        self.topics.topics[topic].partitions[index].standing = Standing.LOADING
        assert machine.load_started(index, self.now_ms)


def name_in(index, prefix="g"):
    """A group id, or a transactional id, that belongs into a partition of three."""
    return next(name for n in range(100) if coordinator_partition(name := f"{prefix}{n}", 3) == index)
