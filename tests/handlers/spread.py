"""A broker that is one of three nodes: the first. The second is up, the third is down.

Partitions of every topic are at home by turns: partition 0 here, 1 at the second node, 2 at the third, 3 here.
"""

from ottla.broker.cluster.view import NOBODY, ClusterView, Leader, NodeInfo, NodeState
from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import LogConfig
from ottla.broker.runtime.offline_log import OfflineLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.handlers.conftest import World

HERE, THERE, DOWN = 1, 2, 3
NODES = (HERE, THERE, DOWN)
EPOCHS = {HERE: 0, THERE: 7, DOWN: 4}


class Turns:
    """The placement of the three."""

    dealt_to = NODES

    def __init__(self):
        self.on_changed = lambda before, after: None
        nodes = {
            node_id: NodeInfo(node_id, NodeState.UP, {"PLAINTEXT": ("", 9091 + node_id)}, EPOCHS[node_id])
            for node_id in NODES
        }
        self.view = ClusterView(HERE, nodes)
        self.turn(DOWN, NodeState.DOWN)

    def leader(self, entry, partition):
        node = self.view.nodes[self.homes(partition + 1)[-1]]
        return Leader(node.node_id if node.is_up else NOBODY, node.epoch)

    def homes(self, count, kind=""):
        return tuple(NODES[index % len(NODES)] for index in range(count))

    def opened(self, epoch):
        """The memory engine begins with the epoch that the node has here."""
        assert epoch == EPOCHS[HERE]

    def turn(self, node_id, state, **changed):
        """Let a node be in another state."""
        nodes = self.view.nodes
        self.view = self.view._replace(nodes={**nodes, node_id: nodes[node_id]._replace(state=state, **changed)})


class Spread(World):
    """See the module. Topics have three partitions unless told otherwise, those of the coordinators as well."""

    def __init__(self, **settings):
        counts = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3}
        super().__init__(**counts | settings)

    def new_placement(self):
        self.placement = Turns()
        return self.placement

    async def start(self):
        await super().start()
        self.spread(OFFSETS_TOPIC)
        return self

    async def topic(self, name="t", partitions=3, **configs):
        topic = await super().topic(name, partitions, **configs)
        self.spread(name)
        return topic

    async def coordinate_transactions(self):
        """Let the topic of transactions come to be, of whose partitions the first is coordinated here."""
        self.transactions.prepare(lambda error: None)
        await self.idle()
        self.spread(TRANSACTIONS_TOPIC)

        class Seen:
            """What transactions need is there, and nothing is loaded because somebody asks for it."""

            def prepare(self, then):
                then(ErrorCode.NONE)

        self.services.transaction_needs = Seen()

    def spread(self, name):
        """Give the partitions of a topic their homes, and lose those that are at home elsewhere."""
        catalog = self.topics.catalog
        entry = catalog.topics[name]
        entry = entry._replace(homes=self.placement.homes(entry.partition_count))
        self.topics._catalog = catalog.with_topics([entry])
        for partition, home in zip(self.topics.topics[name].partitions, entry.homes, strict=True):
            if home != HERE:
                self.lose(partition)

    def lose(self, partition):
        """Another node leads a partition from now on."""
        tp = partition.tp
        partition.log = OfflineLog(tp, partition.topic.topic_id, LogConfig(), partition.log.leader_epoch)
        partition.standing = Standing.ELSEWHERE
        if tp.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            self.host.give_up(tp.topic, tp.partition)
        self.host.touched(tp)

    def reload(self, topic, index):
        """Let a shard be loading, as long as nobody says that it is loaded."""
        machine = self.host.log_of(topic).machine
        self.host.give_up(topic, index)
        self.topics.topics[topic].partitions[index].standing = Standing.LOADING
        assert machine.load_started(index, self.now_ms)


def name_in(index, prefix="g"):
    """A group id, or a transactional id, that belongs into a partition of three."""
    return next(name for n in range(100) if coordinator_partition(name := f"{prefix}{n}", 3) == index)
