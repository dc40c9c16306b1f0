"""A broker's data plane without sockets: handlers, topics and the memory engine, under a clock and storage by hand."""

import asyncio
import inspect
import itertools
import uuid

import pytest
import pytest_asyncio

from ottla.broker.context import RequestContext
from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.security.authorizer import Authorizer, super_users
from ottla.broker.core.security.session import ANONYMOUS
from ottla.broker.core.topics.catalog import NewTopic, TopicEntry
from ottla.broker.engine import StorageFull
from ottla.broker.handlers import handler
from ottla.broker.handlers.services import Cluster, Services
from ottla.broker.runtime.audit import Audit
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.runtime.prepared_commits import PreparedCommits
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transaction_needs import TransactionNeeds
from ottla.broker.settings import Settings
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.fetch import FetchableTopicResponse
from ottla.protocol.records import Record
from ottla.protocol.steps import finished
from tests.shell.host import Log, Timer
from tests.support.batches import build_batch
from tests.support.requests import (
    delete_records_fields,
    fetch_fields,
    list_offsets_fields,
    named,
    produce_fields,
    request,
)

NOW_MS = 1_700_000_000_000
KEYS = {api(key).request: key for key in ApiKey}


class Exchange:
    """One request and what became of it; it is its own connection."""

    client_host = "/127.0.0.1"
    client_port = 50_000
    encoded = b""
    client_software = ""
    local_host = "127.0.0.1"
    local_port = 9092
    half_closed = False
    answer_room_bytes = 1 << 30

    def __init__(self, layout, session=ANONYMOUS):
        self.layout = layout
        self.session = session
        self.response = None
        self.finished = False
        self.aborted = None

    def finish(self, ctx, frame):
        assert not self.finished, "answered twice"
        self.finished = True
        self.response = None if frame is None else self.layout.decode(frame)

    def abort(self, reason):
        self.aborted = reason

    def go_on(self):
        pass

    @property
    def rows(self):
        """What a Produce or a Fetch was told of the partitions of its first topic."""
        first = self.response.responses[0]
        return first.partitions if isinstance(first, FetchableTopicResponse) else first.partition_responses

    @property
    def row(self):
        """What it was told of the first of them."""
        return self.rows[0]

    def hang_up(self):
        """The client goes away."""
        self.ctx.closed = True
        if self.ctx.on_close is not None:
            self.ctx.on_close()


class World:
    """See the module. ``run`` lets the storage finish what was appended; ``advance`` moves the clock."""

    group_config = GroupConfig()
    placement = None

    def __init__(self, **settings):
        self.settings = Settings(**settings)
        self.session = ANONYMOUS
        self.now_ms = 1_000
        self.wall = NOW_MS
        self.scheduled = []
        self.timers = []
        self.log = Log()
        self.deleted = []
        ids = itertools.count(1)
        self.session_ids = itertools.count(100)
        self.new_uuid = lambda: uuid.UUID(int=next(ids))
        self.engine = MemoryEngine(new_uuid=self.new_uuid, call_soon=self.scheduled.append)

    real = property(lambda self: self)
    monotonic_ms = property(lambda self: lambda: self.now_ms)
    wall_ms = property(lambda self: lambda: self.wall)

    async def start(self):
        await self.engine.open()
        self.engine.on_appended = self.appended
        self.fetches = FetchPurgatory()
        self.topics = TopicManager(
            self.engine, self.settings, self, self.log, new_topic_id=self.new_uuid, placement=self.placement
        )
        self.host = self.new_host()
        self.topics.on_touched = self.host.touched
        self.topics.on_deleted = lambda topic: self.deleted.append(topic.name)
        await self.topics.start()
        self.groups = GroupCoordinator(self.group_config, self.new_id, self.topics.partition_count(OFFSETS_TOPIC))
        self.groups.start()
        self.host.add(OFFSETS_TOPIC, self.groups)
        self.members = MemberConnections(self.groups, self.host.now)
        self.transactions = TransactionNeeds(self.settings, self.host, self.topics, self.log)
        self.authorizer = None
        if self.settings.authorizer_class_name:
            open_to_all = self.settings.allow_everyone_if_no_acl_found
            admins = super_users(self.settings.super_users)
            self.authorizer = Authorizer(self.topics.catalog.acls, admins, open_without_rules=open_to_all)
        self.services = Services(
            settings=self.settings,
            clock=self,
            cluster=Cluster(self.topics.placement, self.engine.cluster_id, self.topics),
            host=self.host,
            groups=self.groups,
            members=self.members,
            topics=self.topics,
            transactions=self.transactions.coordinator,
            transaction_needs=self.transactions,
            prepared=PreparedCommits(self.groups, self.host, self.topics, self),
            fetch_sessions=FetchSessions(
                self.settings.max_incremental_fetch_session_cache_slots, lambda: next(self.session_ids)
            ),
            authorizer=self.authorizer,
            audit=Audit(self.log, self.wall_ms),
        )
        self.services.prepared.audit = self.services.audit
        self.topics.on_acls = self.services.rules_changed
        if self.authorizer is not None:
            self.groups.visible_topics = self.services.visible_topics
        await self.lead()
        return self

    async def lead(self):
        """Load what is to be coordinated."""
        await self.host.load(OFFSETS_TOPIC)
        await self.transactions.load()

    def new_host(self, kind=Host, **more):
        return kind(
            self,
            self.fetches,
            partition=self.topics.partition,
            max_batch_bytes=self.settings.message_max_bytes,
            report=self.log,
            **more,
        )

    async def restart(self):
        """What a killed process leaves behind is opened again."""
        self.engine.abandon()
        self.host.silence()
        self.transactions.stop()
        self.scheduled.clear()
        await self.start()

    # -- what the host needs

    def new_id(self):
        """The random part of a member's id."""
        return "id"

    def call_at(self, when_ms, callback):
        timer = Timer(when_ms, callback)
        self.timers.append(timer)
        return timer

    def appended(self, tp):
        self.host.appended(tp, self.engine.logs[tp].size_bytes)

    def run(self):
        while self.scheduled:
            self.scheduled.pop(0)()

    def advance(self, ms):
        self.now_ms += ms
        self.wall += ms
        due = [timer for timer in self.timers if timer.when_ms <= self.now_ms]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.cancelled:
                timer.callback()

    async def idle(self):
        """Let tasks go on until they wait for the test."""
        for _ in range(20):
            await asyncio.sleep(0)
            self.run()

    # -- requests

    def send(self, request, version):
        """Send a request as it is after the wire; the exchange may be answered already."""
        key = KEYS[type(request)]
        row = api(key)
        exchange = Exchange(row.response.layout(version), self.session)
        encode = row.response.layout(version).encode
        exchange.ctx = RequestContext(exchange, version, 7, "client", lambda response, _: encode(response), key.name)
        request = row.request.layout(version).decode(row.request.layout(version).encode(request))
        served = handler(key)
        assert version in served.versions
        answer = served.handle(request, exchange.ctx, self.services)
        if inspect.isgenerator(answer):
            answer = finished(answer)
        if inspect.iscoroutine(answer):
            exchange.work = answer
        elif answer is not None:
            exchange.ctx.reply(answer)
        return exchange

    async def ask(self, request, version):
        """Send a request and return its response."""
        exchange = self.send(request, version)
        if hasattr(exchange, "work"):
            answer = await exchange.work
            if answer is not None:
                exchange.ctx.reply(answer)
        if not exchange.finished:
            await self.idle()
        assert exchange.finished, "not answered"
        return exchange.response

    def begin(self, key, version, /, **fields):
        """Send a request with these fields, as in `tests.support.requests`."""
        return self.send(request(key, fields), version)

    async def call(self, key, version, /, **fields):
        """Send a request with these fields and return its response."""
        return await self.ask(request(key, fields), version)

    # -- shorthands

    async def topic(self, name="t", partitions=1, **configs):
        """Create a topic; configs are given with underscores."""
        pairs = [(key.replace("_", "."), str(value)) for key, value in configs.items()]
        (outcome,) = await self.topics.create([NewTopic(name, partitions, configs=pairs)])
        assert isinstance(outcome, TopicEntry), outcome
        return self.topics.topics[name]

    def id_of(self, topic):
        """A topic's id, or one that is nobody's."""
        return self.topics.topics[topic].topic_id if topic in self.topics.topics else uuid.UUID(int=1 << 100)

    def produce(self, batch, *, topic="t", partition=0, acks=-1, version=9):
        """Send one batch; the exchange is answered when the storage has run."""
        fields = produce_fields(topic, batch, partition, acks)
        fields["topic_data"][0]["topic_id"] = self.id_of(topic)
        return self.begin(ApiKey.PRODUCE, version, **fields)

    def produced(self, batch, **options):
        """Send one batch, let the storage run, and return the partition's row."""
        exchange = self.produce(batch, **options)
        self.run()
        return exchange.row

    def fetch(self, offset=0, *, topic="t", partitions=(0,), version=12, max_wait_ms=0, min_bytes=1, **options):
        """Send a fetch of some partitions, all from ``offset``."""
        options = {"max_bytes": 50 << 20} | options
        fields = fetch_fields(topic, offset, *partitions, max_wait_ms=max_wait_ms, min_bytes=min_bytes, **options)
        fields["topics"][0]["topic_id"] = self.id_of(topic)
        return self.begin(ApiKey.FETCH, version, **fields)

    def produce_all(self, *topics, version=9, acks=-1, **options):
        """Send batches of several topics, as (name or id, [(partition, records), …])."""
        data = [
            named(topic) | {"partition_data": [{"index": index, "records": records} for index, records in rows]}
            for topic, rows in topics
        ]
        return self.begin(ApiKey.PRODUCE, version, acks=acks, topic_data=data, **options)

    def produced_all(self, *topics, **options):
        """The same, and let the storage run; the exchange is answered unless it waits for something else."""
        exchange = self.produce_all(*topics, **options)
        self.run()
        return exchange

    def fetch_all(self, *topics, version=12, **options):
        """Send a fetch of several topics, as (name or id, [(partition, offset), …])."""
        rows = [
            {"topic_id" if isinstance(topic, uuid.UUID) else "topic": topic}
            | {"partitions": [{"partition": i, "fetch_offset": at, "partition_max_bytes": 100} for i, at in places]}
            for topic, places in topics
        ]
        return self.begin(ApiKey.FETCH, version, topics=rows, **options)

    async def trim(self, offset, *, topic="t", partition=0, version=2):
        """Ask for the records before an offset to be deleted; the partition's row."""
        answer = await self.call(ApiKey.DELETE_RECORDS, version, **delete_records_fields(topic, offset, partition))
        return answer.topics[0].partitions[0]

    async def offsets(self, timestamp, *partitions, topic="t", version=7, **options):
        """Look up partitions of a topic, 0 unless told otherwise, by time; their rows."""
        fields = list_offsets_fields(topic, timestamp, *partitions, **options)
        return (await self.call(ApiKey.LIST_OFFSETS, version, **fields)).topics[0].partitions

    async def delete(self, *names):
        """Ask for topics to be deleted; the answer."""
        return await self.call(ApiKey.DELETE_TOPICS, 5, topic_names=names, timeout_ms=1000)

    async def refuse_to_store(self, state, *, over):
        """May take the place of ``engine.catalog.store``."""
        raise StorageFull("no room")

    def fetched(self, offset=0, **options):
        """Fetch without waiting; the row of the first partition."""
        return self.fetch(offset, **options).row


def batch(*values, key=b"k", timestamp_ms=NOW_MS, **options):
    """A batch of records with the given values, a millisecond apart."""
    return build_batch([Record(0, timestamp_ms + i, key, value) for i, value in enumerate(values)], **options)


@pytest.fixture
def make_batch():
    return batch


@pytest.fixture
def new_world():
    return World


@pytest_asyncio.fixture
async def world():
    return await World().start()


@pytest_asyncio.fixture
async def topic(world):
    """The topic ``t`` of one partition."""
    return await world.topic()


@pytest_asyncio.fixture
async def wide_topic(world):
    """The topic ``t`` of two partitions."""
    return await world.topic(partitions=2)


@pytest.fixture
def slow_world(world, monkeypatch):
    """One whose changes take a while, so that others wait for them."""
    store = world.engine.catalog.store

    async def slowly(state, *, over):
        await asyncio.sleep(0)
        return await store(state, over=over)

    monkeypatch.setattr(world.engine.catalog, "store", slowly)
    return world


@pytest.fixture
def on_disk(new_world, tmp_path):
    """Makes worlds over one directory; call again after ``close`` of the engine for a restart."""

    async def make(**settings):
        world = new_world(**settings)
        world.new_uuid = uuid.uuid4
        world.engine = LocalEngine(str(tmp_path), node_id=1, new_uuid=uuid.uuid4, threaded=False)
        return await world.start()

    return make
