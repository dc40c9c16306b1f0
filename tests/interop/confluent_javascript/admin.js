'use strict';
// This client's admin has no calls for configs.

const { KafkaJS } = require('@confluentinc/kafka-javascript');
const { assert, numbers, sorted, test, until } = require('../javascript/harness');
const { admin, callbackAdmin, consumer, failing, producer, topic } = require('./client');

test('admin_topics', async (t) => {
  const boss = await admin(t);
  const create = (one) => boss.createTopics({ topics: [one] });
  assert.equal(await create({ topic: t.topic, numPartitions: 2, replicationFactor: 1 }), true);
  assert.equal(await create({ topic: t.topic }), false); // it is there already
  assert.ok((await boss.listTopics()).includes(t.topic));
  const [described] = await boss.fetchTopicMetadata({ topics: [t.topic], includeAuthorizedOperations: true });
  assert.deepEqual(
    described.partitions.map(({ partitionId }) => partitionId),
    [0, 1],
  );
  assert.ok(
    described.partitions.every(
      ({ leader, replicas, isr }) => leader >= 0 && replicas[0] === leader && isr[0] === leader,
    ),
  );
  assert.equal(described.isInternal, false);
  assert.ok(described.topicId.mostSignificantBits !== 0n);
  assert.ok(described.authorizedOperations.includes(KafkaJS.AclOperationTypes.READ));
  await callbackAdmin(t, 'createPartitions', t.topic, 5, 5000);
  assert.equal((await boss.fetchTopicMetadata({ topics: [t.topic] }))[0].partitions.length, 5);
  await assert.rejects(callbackAdmin(t, 'createPartitions', t.topic, 3, 5000), failing('ERR_INVALID_PARTITIONS'));
  await assert.rejects(create({ topic: 'not valid' }), failing('ERR_TOPIC_EXCEPTION'));
  await assert.rejects(
    create({ topic: `${t.topic}-3`, replicationFactor: 3 }),
    failing('ERR_INVALID_REPLICATION_FACTOR'),
  );
  await assert.rejects(
    create({ topic: `${t.topic}-c`, configEntries: [{ name: 'no.such.config', value: '1' }] }),
    failing('ERR_INVALID_CONFIG'),
  );
  await boss.deleteTopics({ topics: [t.topic] });
  assert.ok(!(await boss.listTopics()).includes(t.topic));
  await assert.rejects(boss.deleteTopics({ topics: [t.topic] }), failing('ERR_UNKNOWN_TOPIC_OR_PART'));
});

test('admin_groups', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(10).map((n) => ({ partition: n % 2, value: String(n) })) });
  const boss = await admin(t);
  const reader = await consumer(t, t.group);
  let read = 0;
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async () => void (read += 1) });
  await until(() => read === 10, 'ten records');
  await reader.commitOffsets();
  const { ConsumerGroupStates: STATES, ConsumerGroupTypes: TYPES } = KafkaJS;
  const listed = async (options) => (await boss.listGroups(options)).groups.find(({ groupId }) => groupId === t.group);
  const found = await listed({ matchConsumerGroupStates: [STATES.STABLE], matchConsumerGroupTypes: [TYPES.CLASSIC] });
  assert.deepEqual(
    [found.protocolType, found.isSimpleConsumerGroup, found.state, found.type],
    ['consumer', false, STATES.STABLE, TYPES.CLASSIC],
  );
  assert.equal(await listed({ matchConsumerGroupStates: [STATES.EMPTY] }), undefined);
  const {
    groups: [described],
  } = await boss.describeGroups([t.group], { includeAuthorizedOperations: true });
  assert.equal(described.state, STATES.STABLE);
  assert.ok(described.coordinator.port > 0 && described.authorizedOperations.includes(KafkaJS.AclOperationTypes.READ));
  await assert.rejects(boss.deleteGroups([t.group]), failing('ERR_NON_EMPTY_GROUP'));
  await reader.disconnect();
  const offsets = async () => {
    const [{ partitions }] = await boss.fetchOffsets({
      groupId: t.group,
      topics: [{ topic: t.topic, partitions: [0, 1] }],
    });
    return partitions.map(({ offset }) => offset);
  };
  assert.deepEqual(await offsets(), ['5', '5']);
  const everything = await boss.fetchOffsets({ groupId: t.group, requireStableOffsets: true });
  assert.deepEqual(
    everything.map((one) => one.topic),
    [t.topic],
  );
  const [deleted] = await boss.deleteGroups([t.group]);
  assert.equal(deleted.errorCode || 0, 0);
  assert.equal(await listed(), undefined);
  assert.ok((await offsets()).every((offset) => Number(offset) < 0));
  const {
    groups: [gone],
  } = await boss.describeGroups([t.group]);
  assert.equal(gone.state, STATES.DEAD);
  await assert.rejects(boss.deleteGroups([t.group]), failing('ERR_GROUP_ID_NOT_FOUND'));
});

test('admin_records', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t);
  await one.send({
    topic: t.topic,
    messages: numbers(20).map((n) => ({
      partition: n % 2,
      value: String(n),
      timestamp: String(1_700_000_000_000 + n * 1000),
    })),
  });
  const boss = await admin(t);
  const partitions = [
    { partition: 0, offset: '4' },
    { partition: 1, offset: '-1' },
  ];
  const deleted = await boss.deleteTopicRecords({ topic: t.topic, partitions });
  assert.deepEqual(sorted(deleted.map(({ partition, lowWatermark }) => `${partition}: ${lowWatermark}`)), [
    '0: 4',
    '1: 10',
  ]);
  const offsets = sorted(
    (await boss.fetchTopicOffsets(t.topic)).map(({ partition, low, high }) => `${partition}: ${low}-${high}`),
  );
  assert.deepEqual(offsets, ['0: 4-10', '1: 10-10']);
  const byTime = await boss.fetchTopicOffsetsByTimestamp(t.topic, 1_700_000_012_000);
  assert.deepEqual(sorted(byTime.map(({ partition, offset }) => `${partition}: ${offset}`)), ['0: 6', '1: 10']);
  await assert.rejects(
    boss.deleteTopicRecords({ topic: t.topic, partitions: [{ partition: 0, offset: '99' }] }),
    failing('ERR_OFFSET_OUT_OF_RANGE'),
  );
});
