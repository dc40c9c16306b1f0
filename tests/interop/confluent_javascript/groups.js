'use strict';

const path = require('node:path');
const {
  assert,
  Member,
  needsRestarts,
  numbers,
  pause,
  restartBroker,
  sorted,
  test,
  until,
} = require('../javascript/harness');
const { admin, consumer, producer, readAll, topic, values } = require('./client');

function member(t, name, options = {}) {
  const one = new Member(path.join(__dirname, 'member.js'), { name, group: t.group, topic: t.topic, ...options });
  t.closing.add(() => one.kill());
  return one;
}

test('group_join_and_leave', async (t) => {
  await topic(t, { partitions: 6 });
  const one = member(t, 'one');
  await one.owns(6);
  const [two, three] = [member(t, 'two'), member(t, 'three')];
  await Promise.all([one.owns(2), two.owns(2), three.owns(2)]);
  assert.deepEqual(sorted([...one.partitions, ...two.partitions, ...three.partitions]), numbers(6));
  const boss = await admin(t);
  const {
    groups: [group],
  } = await boss.describeGroups([t.group]);
  assert.deepEqual([group.state, group.protocolType, group.partitionAssignor], [3, 'consumer', 'roundrobin']);
  assert.deepEqual(sorted(group.members.map(({ clientId }) => clientId)), ['one', 'three', 'two']);
  assert.deepEqual(
    sorted(group.members.flatMap(({ assignment }) => assignment.topicPartitions.map(({ partition }) => partition))),
    numbers(6),
  );
  await two.leave();
  await Promise.all([one.owns(3), three.owns(3)]);
  await Promise.all([one.leave(), three.leave()]);
  const {
    groups: [empty],
  } = await boss.describeGroups([t.group]);
  assert.deepEqual([empty.state, empty.members], [5, []]);
});

test('group_crash', async (t) => {
  await topic(t, { partitions: 4 });
  const one = await producer(t);
  const [stays, dies] = [member(t, 'stays', { session: 1500 }), member(t, 'dies', { session: 1500 })];
  await Promise.all([stays.owns(2), dies.owns(2)]);
  const orphans = dies.partitions;
  await dies.kill();
  await one.send({ topic: t.topic, messages: orphans.map((partition) => ({ partition, value: `for ${partition}` })) });
  await stays.owns(4);
  await until(
    () => stays.records.length === 2,
    () => `the records of the dead: ${JSON.stringify(stays.records)}`,
  );
  assert.deepEqual(sorted(stays.records.map(({ partition }) => partition)), sorted(orphans));
});

test('group_static_member', async (t) => {
  await topic(t, { partitions: 4 });
  const stays = member(t, 'stays', { instance: 'a', session: 8000 });
  let returns = member(t, 'returns', { instance: 'b', session: 8000 });
  await Promise.all([stays.owns(2), returns.owns(2)]);
  const [before, owned] = [stays.assignments.length, returns.partitions];
  await returns.kill();
  returns = member(t, 'returns', { instance: 'b', session: 8000 });
  await returns.owns(2);
  assert.deepEqual(returns.partitions, owned);
  await pause(500); // two heartbeats: time enough to be told of a rebalance
  assert.equal(stays.assignments.length, before);
  // A static member that leaves is still in the group.
  await returns.leave();
  const boss = await admin(t);
  const {
    groups: [group],
  } = await boss.describeGroups([t.group]);
  assert.deepEqual(sorted(group.members.map(({ groupInstanceId }) => groupInstanceId)), ['a', 'b']);
  assert.equal(stays.assignments.length, before);
});

test('group_static_member_is_fenced_by_another', async (t) => {
  await topic(t, { partitions: 2 });
  const first = member(t, 'first', { instance: 'same' });
  await first.owns(2);
  const second = member(t, 'second', { instance: 'same' });
  await second.owns(2);
  await until(
    () => /fatal/i.test(first.errors),
    () => `the end of the first: ${first.errors}`,
  );
});

test('group_cooperative', async (t) => {
  await topic(t, { partitions: 6 });
  const options = { assignor: 'cooperativeSticky' };
  const one = member(t, 'one', options);
  await one.owns(6);
  const two = member(t, 'two', options);
  await Promise.all([one.owns(3), two.owns(3)]);
  const three = member(t, 'three', options);
  await Promise.all([one.owns(2), two.owns(2), three.owns(2)]);
  // Nobody ever gave up what it kept.
  const revoked = one.assignments.filter(({ change }) => change === 'revoke').flatMap(({ partitions }) => partitions);
  assert.equal(revoked.length, 4);
  assert.ok(one.partitions.every((partition) => !revoked.includes(partition)));
  assert.deepEqual(sorted([...one.partitions, ...two.partitions, ...three.partitions]), numbers(6));
  await three.leave();
  await Promise.all([one.owns(3), two.owns(3)]);
});

test('commit_and_resume', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(20).map((n) => ({ value: String(n) })) });
  const first = await consumer(t, t.group);
  let before = 0;
  await first.subscribe({ topics: [t.topic] });
  await first.run({ eachMessage: async () => void (before += 1) });
  await until(() => before === 20, '20 records');
  await first.commitOffsets([{ topic: t.topic, partition: 0, offset: '7', metadata: 'seven read' }]);
  const [own] = await first.committed([{ topic: t.topic, partition: 0 }], 5000);
  assert.deepEqual([own.offset, own.metadata], ['7', 'seven read']);
  await first.disconnect();
  const boss = await admin(t);
  const [
    {
      partitions: [committed],
    },
  ] = await boss.fetchOffsets({ groupId: t.group, topics: [t.topic] });
  assert.deepEqual([committed.offset, committed.metadata, committed.error], ['7', 'seven read', null]);
  const rest = await readAll(t, t.topic, 13, { group: t.group });
  assert.deepEqual(values(rest), numbers(13, 7).map(String));
});

test(
  'members_stay_members_when_the_broker_restarts',
  async (t) => {
    needsRestarts();
    await topic(t, { partitions: 4 });
    // Sessions outlast a restart on a busy machine, where six seconds go by before a client has found its broker again.
    const session = 30_000;
    const members = [member(t, 'one', { session }), member(t, 'two', { session, instance: 'static' })];
    await Promise.all(members.map((one) => one.owns(2)));
    const before = members.map((one) => one.assignments.length);
    await restartBroker();
    const one = await producer(t);
    await one.send({ topic: t.topic, messages: numbers(4).map((partition) => ({ partition, value: 'after' })) });
    await until(() => members.every((each) => each.records.length === 2), 'two records each');
    const boss = await admin(t);
    await until(async () => {
      const [found] = await boss.fetchOffsets({
        groupId: t.group,
        topics: [{ topic: t.topic, partitions: numbers(4) }],
      });
      return found.partitions.every(({ offset }) => offset === '1');
    }, 'every record committed');
    assert.deepEqual(
      members.map((each) => each.assignments.length),
      before,
    );
  },
  { seconds: 90 },
);

test(
  'broker_restart',
  async (t) => {
    needsRestarts();
    await topic(t, { partitions: 2 });
    const one = await producer(
      t,
      { idempotent: true },
      { 'reconnect.backoff.ms': 50, 'reconnect.backoff.max.ms': 200 },
    );
    const reader = await consumer(
      t,
      t.group,
      { autoCommit: true, autoCommitInterval: 100 },
      { 'reconnect.backoff.max.ms': 200 },
    );
    const got = [];
    await reader.subscribe({ topics: [t.topic] });
    await reader.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
    let n = 0;
    let over = false;
    const sending = (async () => {
      while (!over || n % 10) {
        await one.send({ topic: t.topic, messages: [{ partition: n % 2, value: String(n) }] });
        n += 1;
      }
    })();
    await until(
      () => got.length >= 20,
      () => `twenty records: ${got.length}`,
    );
    await restartBroker();
    const sofar = n;
    await until(() => n > sofar + 20, 'records after the restart');
    over = true;
    await sending;
    await until(
      () => new Set(got).size === n,
      () => `${n} records: ${new Set(got).size}`,
    );
    const boss = await admin(t);
    const offsets = await boss.fetchTopicOffsets(t.topic);
    assert.deepEqual(
      offsets.map(({ high }) => Number(high)),
      [n / 2, n / 2],
    ); // each record is there once
    // It finds its coordinator again, is still a member and goes on committing.
    await until(async () => {
      const [{ partitions }] = await boss.fetchOffsets({ groupId: t.group, topics: [t.topic] });
      return partitions.every(({ offset }) => Number(offset) === n / 2);
    }, 'every record committed');
  },
  { seconds: 90 },
);
