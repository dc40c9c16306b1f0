"""The admin client against a broker."""

from collections.abc import Awaitable, Callable

import pytest

from ottla.clients import (
    Admin,
    ClientClosed,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    OptionError,
    Producer,
    SomeFailed,
    TopicPartition,
)
from ottla.testing import Broker
from tests.clients.live import create, eventually, filled, group_options, read

pytestmark = pytest.mark.e2e


def admin_of(broker: Broker) -> Admin:
    return Admin(bootstrap_servers=broker.bootstrap_servers)


async def test_the_cluster(broker: Broker) -> None:
    async with admin_of(broker) as admin:
        cluster = await admin.describe_cluster()
    assert [f"{one.host}:{one.port}" for one in cluster.brokers] == [broker.bootstrap_servers]
    assert cluster.controller_id == cluster.brokers[0].node_id
    assert cluster.cluster_id


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda admin: admin.create_topics({"t": "three"}), "^num_partitions='three': .*an integer of 32 bits"),
        (lambda admin: admin.create_topics({"t": 1 << 40}), "^num_partitions=1099511627776: .*an integer of 32 bits"),
        (lambda admin: admin.create_topics({5: 1}), "^name=5: .*a text"),
        (lambda admin: admin.create_topics([NewTopic("t", topic_configs={"a": 1})]), "^value=1: .*a text, or None"),
        (lambda admin: admin.create_topics([NewTopic("t", topic_configs=["a"])]), r"^topic_configs=\['a'\]: .*a dict"),
        (lambda admin: admin.create_partitions({"t": None}), "^count=None: .*an integer of 32 bits"),
        (lambda admin: admin.incremental_alter_configs(topics={"t": {"a": 1}}), "^a=1: allowed is a text"),
        (lambda admin: admin.alter_configs(topics={"t": {"a": 1}}), "^a=1: allowed is a text"),
        (lambda admin: admin.alter_client_quotas({"user": "u"}, {"a": "x"}), "^value='x': .*a number"),
        (lambda admin: admin.delete_records({("__consumer_offsets", 0): "x"}), "^offset='x': .*of 64 bits"),
        (lambda admin: admin.list_offsets({("t", 0): 1.5}), "^timestamp=1.5: allowed is a Unix time"),
        (lambda admin: admin.list_group_offsets(5), "^group=5: allowed is a name"),
    ],
)
async def test_a_value_that_cannot_be_sent_is_named(
    broker: Broker, call: Callable[[Admin], Awaitable[object]], words: str
) -> None:
    async with admin_of(broker) as admin:
        with pytest.raises(OptionError, match=words):
            await call(admin)
        assert (await admin.describe_cluster()).cluster_id


async def test_topics_from_beginning_to_end(broker: Broker, name: str) -> None:
    a, b = f"{name}-a", f"{name}-b"
    async with admin_of(broker) as admin:
        assert (await admin.create_topics({a: 3}, validate_only=True))[a].num_partitions == 3
        assert a not in await admin.list_topics()
        made = await admin.create_topics([NewTopic(a, 3, topic_configs={"retention.ms": "1000"}), b])
        assert (made[a].num_partitions, made[a].configs["retention.ms"], made[b].num_partitions) == (3, "1000", 1)

        async def listed(*names: str) -> bool:
            return {a, b} & set(await admin.list_topics(include_internal=False)) == set(names)

        async def grown() -> bool:
            return sorted((await admin.describe_topics([a]))[a].partitions) == [0, 1, 2, 3, 4]

        await eventually(lambda: listed(a, b))
        assert "__consumer_offsets" in await admin.list_topics()
        assert "__consumer_offsets" not in await admin.list_topics(include_internal=False)
        await admin.create_partitions({a: 5})
        await eventually(grown)
        assert (await admin.describe_topics([a]))[a].topic_id == made[a].topic_id
        assert b in await admin.describe_topics()
        await admin.delete_topics([a, b])
        await eventually(listed)


async def test_one_that_fails_raises_and_of_several_the_rest_is_done(broker: Broker, name: str) -> None:
    await create(broker, name)
    async with admin_of(broker) as admin:
        with pytest.raises(KafkaError) as one:
            await admin.create_topics([name])
        assert (type(one.value), one.value.code) == (KafkaError, ErrorCode.TOPIC_ALREADY_EXISTS)
        with pytest.raises(SomeFailed) as some:
            await admin.create_topics([name, f"{name}-new", "not a name"])
        assert {key: error.code for key, error in some.value.errors.items()} == {
            name: ErrorCode.TOPIC_ALREADY_EXISTS,
            "not a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert list(some.value.results) == [f"{name}-new"]


async def test_what_does_not_exist_is_told_at_once(broker: Broker, name: str) -> None:
    async with admin_of(broker) as admin:
        for call in (
            admin.delete_topics([name]),
            admin.describe_topics([name]),
            admin.create_partitions({name: 2}),
            admin.list_offsets({TopicPartition(name, 0): "latest"}),
            admin.delete_records({TopicPartition(name, 0): 1}),
            admin.describe_configs(topics=[name]),
        ):
            with pytest.raises(KafkaError) as caught:
                await call
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in await admin.list_topics(), "asking for it has not created it"
        with pytest.raises(KafkaError, match="no broker 99: there are"):
            await admin.describe_configs(brokers=[99])


async def test_settings(broker: Broker, name: str) -> None:
    await create(broker, name, **{"retention.ms": "1000"})
    async with admin_of(broker) as admin:
        [node] = (await admin.describe_cluster()).brokers
        described = await admin.describe_configs(topics=[name], brokers=[node.node_id])
        entry = described[name]["retention.ms"]
        assert (entry.value, entry.is_default, entry.read_only) == ("1000", False, False)
        assert described[name]["cleanup.policy"].is_default
        assert "num.partitions" in described[node.node_id]
        only = await admin.describe_configs(topics=[name], keys=["retention.ms"])
        assert list(only[name]) == ["retention.ms"]


async def test_settings_of_a_group(broker: Broker, name: str) -> None:
    session = "consumer.session.timeout.ms"

    async def has(value: str, source: int) -> bool:
        entry = (await admin.describe_configs(groups=[name], keys=[session]))[name][session]
        return (entry.value, entry.source) == (value, source)

    async with admin_of(broker) as admin:
        [node] = (await admin.describe_cluster()).brokers
        default = (await admin.describe_configs(groups=[name]))[name][session]
        await admin.incremental_alter_configs(groups={name: {session: "46000"}}, brokers={node.node_id: {}})
        await eventually(lambda: has("46000", 8))
        await admin.alter_configs(groups={name: {session: "47000"}})
        await eventually(lambda: has("47000", 8))
        with pytest.raises(KafkaError) as caught:
            await admin.incremental_alter_configs(groups={name: {session: "1"}})
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        await admin.incremental_alter_configs(groups={name: {session: None}})
        assert default.value is not None
        await eventually(lambda: has(default.value, default.source))


async def test_a_topic_and_a_group_of_one_name_take_two_calls(broker: Broker, name: str) -> None:
    async with admin_of(broker) as admin:
        for call in (
            admin.describe_configs(topics=[name], groups=[name]),
            admin.alter_configs(topics={name: {}}, groups={name: {}}),
            admin.incremental_alter_configs(topics={name: {}}, groups={name: {}}),
        ):
            with pytest.raises(OptionError, match="make two calls"):
                await call


async def test_offsets_and_records(broker: Broker, name: str) -> None:
    a, b = await create(broker, name, 2)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(10):
            await producer.send(name, b"", partition=0, timestamp_ms=1_000 + n)
    async with admin_of(broker) as admin:
        assert (await admin.list_offsets({a: "latest"}))[a].offset == 10
        found = await admin.list_offsets({a: 1_004, b: "earliest"})
        assert [(found[tp].offset, found[tp].timestamp) for tp in (a, b)] == [(4, 1_004), (0, -1)]
        assert (await admin.list_offsets({a: "max_timestamp"}))[a][:2] == (9, 1_009)
        assert (await admin.list_offsets({a: 9_999}))[a].offset == -1
        assert await admin.delete_records({a: 3, b: -1}) == {a: 3, b: 0}
        assert (await admin.list_offsets({a: "earliest"}, isolation_level="read_committed"))[a].offset == 3
        with pytest.raises(KafkaError, match="offset out of range"):
            await admin.delete_records({a: 99})
        with pytest.raises(OptionError, match="'earliest', 'latest', 'max_timestamp'"):
            await admin.list_offsets({a: "newest"})
        with pytest.raises(OptionError, match="isolation_level"):
            await admin.list_offsets({a: 0}, isolation_level="none")


async def test_groups_from_beginning_to_end(broker: Broker, name: str) -> None:
    a, b = await filled(broker, name, 10, 2)
    async with admin_of(broker) as admin:
        await admin.alter_group_offsets(name, {a: 2, b: OffsetAndMetadata(3, "note")})
        assert await admin.list_group_offsets(name) == {
            a: OffsetAndMetadata(2, "", -1),
            b: OffsetAndMetadata(3, "note", -1),
        }
        assert list(await admin.list_group_offsets(name, [b, TopicPartition(name, 7)])) == [b]
        [listed] = [group for group in await admin.list_groups(states=["Empty"]) if group.group_id == name]
        assert listed.state == "Empty"
        options = group_options(broker, name, partition_assignment_strategy="range", client_id="me")
        async with Consumer(name, **options) as consumer:
            await read(consumer, 5)
            described = await admin.describe_groups([name, f"{name}-not"])
            group = described[name]
            assert (group.state, group.protocol_type, group.protocol_name) == ("Stable", "consumer", "range")
            [member] = group.members
            assert (member.member_id, member.client_id, member.group_instance_id) == (consumer.member_id, "me", None)
            assert (member.client_host, member.topics, member.assignment) == ("/127.0.0.1", [name], [a, b])
            assert described[f"{name}-not"].state == "Dead"
            assert name in [one.group_id for one in await admin.list_groups(states=["Stable"])]
            for call, code in (
                (admin.alter_group_offsets(name, {a: 0}), ErrorCode.UNKNOWN_MEMBER_ID),
                (admin.delete_groups([name]), ErrorCode.NON_EMPTY_GROUP),
                (admin.delete_group_offsets(name, [a]), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
            ):
                with pytest.raises(KafkaError) as caught:
                    await call
                assert caught.value.code is code
        await admin.delete_group_offsets(name, [a])
        assert list(await admin.list_group_offsets(name)) == [b]
        await admin.delete_groups([name])
        assert name not in [one.group_id for one in await admin.list_groups()]
        with pytest.raises(KafkaError) as gone:
            await admin.delete_groups([name])
        assert gone.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        with pytest.raises(OptionError, match="offset=-1"):
            await admin.alter_group_offsets(name, {a: -1})


async def test_an_admin_client_that_does_not_run_says_so(broker: Broker) -> None:
    admin = admin_of(broker)
    with pytest.raises(ClientClosed, match="new"):
        await admin.list_topics()
    await admin.start()
    await admin.close()
    await admin.close()
    with pytest.raises(ClientClosed, match="stopped"):
        await admin.list_topics()
