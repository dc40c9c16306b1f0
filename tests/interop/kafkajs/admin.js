'use strict';

const { assert, BROKERS, numbers, skip, sorted, test, until } = require('../javascript/harness');
const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  AssignerProtocol,
  ConfigResourceTypes,
  ConfigSource,
  ResourcePatternTypes,
} = require('kafkajs');
const { admin, consumer, failing, kafka, producer, readAll, topic, values } = require('./client');

test('admin_topics', async (t) => {
  const boss = await admin(t, kafka({ retry: { retries: 2, initialRetryTime: 50 } }));
  assert.equal(
    await boss.createTopics({
      waitForLeaders: true,
      topics: [{ topic: t.topic, numPartitions: 2, replicationFactor: 1 }],
    }),
    true,
  );
  assert.equal(await boss.createTopics({ topics: [{ topic: t.topic }] }), false); // it is there already
  assert.equal(
    await boss.createTopics({ validateOnly: true, waitForLeaders: false, topics: [{ topic: `${t.topic}-dry` }] }),
    true,
  );
  const listed = await boss.listTopics();
  assert.ok(listed.includes(t.topic) && !listed.includes(`${t.topic}-dry`));
  const nodes = (await boss.describeCluster()).brokers.map(({ nodeId }) => nodeId);
  const {
    topics: [described],
  } = await boss.fetchTopicMetadata({ topics: [t.topic] });
  assert.deepEqual(sorted(described.partitions.map(({ partitionId }) => partitionId)), [0, 1]);
  assert.ok(described.partitions.every((one) => nodes.includes(one.leader) && one.partitionErrorCode === 0));
  assert.deepEqual(
    [described.partitions[0].replicas, described.partitions[0].isr, described.partitions[0].offlineReplicas],
    [[described.partitions[0].leader], [described.partitions[0].leader], []],
  );
  await boss.createPartitions({ topicPartitions: [{ topic: t.topic, count: 5 }] });
  const {
    topics: [grown],
  } = await boss.fetchTopicMetadata({ topics: [t.topic] });
  assert.equal(grown.partitions.length, 5);
  await assert.rejects(
    boss.createPartitions({ topicPartitions: [{ topic: t.topic, count: 3 }] }),
    failing('INVALID_PARTITIONS'),
  );
  await assert.rejects(boss.createTopics({ topics: [{ topic: 'not valid' }] }), failing('INVALID_TOPIC_EXCEPTION'));
  await assert.rejects(
    boss.createTopics({ topics: [{ topic: `${t.topic}-3`, replicationFactor: 3 }] }),
    failing('INVALID_REPLICATION_FACTOR'),
  );
  await assert.rejects(
    boss.createTopics({ topics: [{ topic: `${t.topic}-c`, configEntries: [{ name: 'no.such.config', value: '1' }] }] }),
    failing('INVALID_CONFIG'),
  );
  await boss.createTopics({
    waitForLeaders: true,
    topics: [
      {
        topic: `${t.topic}-placed`,
        replicaAssignment: numbers(3).map((partition) => ({ partition, replicas: [nodes[0]] })),
      },
    ],
  });
  assert.equal((await boss.fetchTopicMetadata({ topics: [`${t.topic}-placed`] })).topics[0].partitions.length, 3);
  await boss.deleteTopics({ topics: [t.topic] });
  assert.ok(!(await boss.listTopics()).includes(t.topic));
  await assert.rejects(boss.deleteTopics({ topics: [t.topic] }), failing('UNKNOWN_TOPIC_OR_PARTITION'));
});

test('admin_topic_made_again_starts_at_0', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(5).map((n) => ({ value: `old ${n}` })) });
  const boss = await admin(t);
  await boss.deleteTopics({ topics: [t.topic] });
  await topic(t);
  const two = await producer(t);
  const [{ baseOffset }] = await two.send({ topic: t.topic, messages: [{ value: 'new' }] });
  assert.equal(baseOffset, '0');
  assert.deepEqual(values(await readAll(t, t.topic, 1)), ['new']);
});

test('admin_cluster', async (t) => {
  const boss = await admin(t);
  const { brokers, controller, clusterId } = await boss.describeCluster();
  assert.deepEqual(
    brokers.map(({ host, port }) => `${host}:${port}`),
    BROKERS,
  );
  assert.ok(brokers.some(({ nodeId }) => nodeId === controller));
  assert.match(clusterId, /^[A-Za-z0-9_-]{22}$/);
});

test('admin_configs', async (t) => {
  await topic(t, { config: { 'retention.ms': '3600000' } });
  const boss = await admin(t);
  const type = ConfigResourceTypes.TOPIC;
  const describe = async (configNames) => {
    const {
      resources: [resource],
    } = await boss.describeConfigs({ includeSynonyms: true, resources: [{ type, name: t.topic, configNames }] });
    assert.equal(resource.errorCode, 0);
    return new Map(resource.configEntries.map((entry) => [entry.configName, entry]));
  };
  const before = await describe();
  assert.ok(before.size > 20);
  assert.equal(before.get('retention.ms').configValue, '3600000');
  assert.equal(before.get('retention.ms').configSource, ConfigSource.TOPIC_CONFIG);
  assert.equal(before.get('cleanup.policy').configValue, 'delete');
  assert.equal(before.get('cleanup.policy').isDefault, true);
  assert.ok(before.get('retention.ms').configSynonyms.length >= 1);
  // AlterConfigs puts one set in the place of another.
  const alter = (entries, validateOnly = false) =>
    boss.alterConfigs({ validateOnly, resources: [{ type, name: t.topic, configEntries: entries }] });
  await alter([{ name: 'cleanup.policy', value: 'compact' }], true);
  assert.equal((await describe(['cleanup.policy'])).get('cleanup.policy').configValue, 'delete');
  await alter([{ name: 'cleanup.policy', value: 'compact' }]);
  const after = await describe(['cleanup.policy', 'retention.ms']);
  assert.deepEqual([...after.keys()].sort(), ['cleanup.policy', 'retention.ms']);
  assert.equal(after.get('cleanup.policy').configValue, 'compact');
  assert.equal(after.get('retention.ms').configValue, '604800000');
  await assert.rejects(alter([{ name: 'cleanup.policy', value: 'burn' }]), failing('INVALID_CONFIG'));
  const {
    brokers: [{ nodeId }],
  } = await boss.describeCluster();
  const {
    resources: [broker],
  } = await boss.describeConfigs({ resources: [{ type: ConfigResourceTypes.BROKER, name: String(nodeId) }] });
  const port = broker.configEntries.find(({ configName }) => configName === 'advertised.listeners');
  assert.ok(port && port.readOnly);
});

test('admin_groups', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(10).map((n) => ({ partition: n % 2, value: String(n) })) });
  const boss = await admin(t);
  const reader = await consumer(t, t.group);
  let read = 0;
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ autoCommitThreshold: 1, eachMessage: async () => void (read += 1) });
  await until(() => read === 10, 'ten records');
  assert.deepEqual(
    (await boss.listGroups()).groups.find(({ groupId }) => groupId === t.group),
    { groupId: t.group, protocolType: 'consumer' },
  );
  const {
    groups: [described],
  } = await boss.describeGroups([t.group]);
  assert.equal(described.state, 'Stable');
  assert.deepEqual(AssignerProtocol.MemberMetadata.decode(described.members[0].memberMetadata).topics, [t.topic]);
  assert.deepEqual(AssignerProtocol.MemberAssignment.decode(described.members[0].memberAssignment).assignment, {
    [t.topic]: [0, 1],
  });
  assert.equal((await reader.describeGroup()).state, 'Stable');
  await assert.rejects(boss.deleteGroups([t.group]), failing('NON_EMPTY_GROUP'));
  const hasty = await admin(t, kafka({ retry: { retries: 0 } }));
  await assert.rejects(
    hasty.setOffsets({ groupId: t.group, topic: t.topic, partitions: [{ partition: 0, offset: '0' }] }),
  );
  await reader.disconnect();
  const offsets = async () => {
    const [{ partitions }] = await boss.fetchOffsets({ groupId: t.group, topics: [t.topic] });
    return partitions.sort((a, b) => a.partition - b.partition).map(({ offset, metadata }) => [offset, metadata]);
  };
  assert.deepEqual(
    (await offsets()).map(([offset]) => offset),
    ['5', '5'],
  );
  await boss.setOffsets({ groupId: t.group, topic: t.topic, partitions: [{ partition: 0, offset: '2' }] });
  assert.deepEqual(
    (await offsets()).map(([offset]) => offset),
    ['2', '5'],
  );
  await boss.resetOffsets({ groupId: t.group, topic: t.topic, earliest: true });
  const [{ partitions: resolved }] = await boss.fetchOffsets({
    groupId: t.group,
    topics: [t.topic],
    resolveOffsets: true,
  });
  assert.deepEqual(sorted(resolved.map(({ offset }) => offset)), ['0', '0']);
  const everything = await boss.fetchOffsets({ groupId: t.group });
  assert.deepEqual(
    everything.map((found) => found.topic),
    [t.topic],
  );
  assert.deepEqual(await boss.deleteGroups([t.group]), [{ groupId: t.group, errorCode: 0 }]);
  assert.ok(!(await boss.listGroups()).groups.some(({ groupId }) => groupId === t.group));
  assert.deepEqual(await offsets(), [
    ['-1', null],
    ['-1', null],
  ]);
  const {
    groups: [gone],
  } = await boss.describeGroups([t.group]);
  assert.equal(gone.state, 'Dead');
  await assert.rejects(boss.deleteGroups([t.group]), failing('GROUP_ID_NOT_FOUND'));
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
  await boss.fetchTopicOffsets(t.topic); // deleteTopicRecords looks up no leaders itself
  await boss.deleteTopicRecords({
    topic: t.topic,
    partitions: [
      { partition: 0, offset: '4' },
      { partition: 1, offset: '-1' },
    ],
  });
  const offsets = sorted(
    (await boss.fetchTopicOffsets(t.topic)).map(({ partition, low, high }) => `${partition}: ${low}-${high}`),
  );
  assert.deepEqual(offsets, ['0: 4-10', '1: 10-10']);
  const byTime = await boss.fetchTopicOffsetsByTimestamp(t.topic, 1_700_000_012_000);
  assert.deepEqual(sorted(byTime.map(({ partition, offset }) => `${partition}: ${offset}`)), ['0: 6', '1: 10']);
  await assert.rejects(
    boss.deleteTopicRecords({ topic: t.topic, partitions: [{ partition: 0, offset: '99' }] }),
    failing('OFFSET_OUT_OF_RANGE'),
  );
});

test('admin_acls', async (t) => {
  const boss = await admin(t, kafka({ retry: { retries: 1, initialRetryTime: 50 } }));
  const rule = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: t.topic,
    resourcePatternType: ResourcePatternTypes.LITERAL,
    principal: 'User:kafka',
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW,
  };
  const filter = {
    ...rule,
    principal: undefined,
    host: undefined,
    operation: AclOperationTypes.ANY,
    permissionType: AclPermissionTypes.ANY,
  };
  try {
    assert.equal(await boss.createAcls({ acl: [rule, { ...rule, operation: AclOperationTypes.WRITE }] }), true);
  } catch (error) {
    if (failing('SECURITY_DISABLED')(error)) skip('the broker keeps no rules');
    throw error;
  }
  const described = async () =>
    (await boss.describeAcls(filter)).resources.flatMap(({ acls }) => acls.map(({ operation }) => operation));
  assert.deepEqual(sorted(await described()), [AclOperationTypes.READ, AclOperationTypes.WRITE]);
  const {
    filterResponses: [deleted],
  } = await boss.deleteAcls({ filters: [{ ...filter, operation: AclOperationTypes.WRITE }] });
  assert.deepEqual(
    deleted.matchingAcls.map(({ resourceName, principal }) => [resourceName, principal]),
    [[t.topic, 'User:kafka']],
  );
  assert.deepEqual(await described(), [AclOperationTypes.READ]);
});

test('admin_reassignments', async (t) => {
  await topic(t);
  const boss = await admin(t);
  const { topics } = await boss.listPartitionReassignments({});
  assert.deepEqual(topics, []);
});

test('a_broker_that_is_not_there_is_told_apart', async () => {
  const nowhere = kafka({ brokers: ['127.0.0.1:1'], retry: { retries: 1, initialRetryTime: 20 } });
  await assert.rejects(nowhere.admin().connect(), (error) => /ECONNREFUSED/.test(error.message));
});
