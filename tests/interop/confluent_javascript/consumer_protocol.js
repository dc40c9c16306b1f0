'use strict';
// Groups of the consumer protocol (KIP-848): the broker assigns.

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
const { admin, kafka, producer, readAll, topic, values } = require('./client');

function member(t, name, options = {}) {
  const given = { name, group: t.group, topic: t.topic, protocol: 'consumer', ...options };
  const one = new Member(path.join(__dirname, 'member.js'), given);
  t.closing.add(() => one.kill());
  return one;
}

async function modern(t) {
  const one = kafka().consumer({
    kafkaJS: { groupId: t.group, fromBeginning: true, autoCommit: false, maxWaitTimeInMs: 100 },
    'group.protocol': 'consumer',
  });
  await one.connect();
  t.closing.add(() => one.disconnect());
  return one;
}

const described = async (t) => (await (await admin(t)).describeGroups([t.group])).groups[0];

test('consumer_protocol_join_and_leave', async (t) => {
  await topic(t, { partitions: 6 });
  const one = member(t, 'one');
  await one.owns(6);
  const [two, three] = [member(t, 'two'), member(t, 'three')];
  await Promise.all([one.owns(2), two.owns(2), three.owns(2)]);
  assert.deepEqual(sorted([...one.partitions, ...two.partitions, ...three.partitions]), numbers(6));
  const revoked = one.assignments.filter(({ change }) => change === 'revoke').flatMap(({ partitions }) => partitions);
  assert.equal(revoked.length, 4);
  const group = await described(t);
  assert.deepEqual([group.state, group.type, group.partitionAssignor], [3, 1, 'uniform']);
  assert.deepEqual(sorted(group.members.map(({ clientId }) => clientId)), ['one', 'three', 'two']);
  await two.leave();
  await Promise.all([one.owns(3), three.owns(3)]);
  await Promise.all([one.leave(), three.leave()]);
  const empty = await described(t);
  assert.deepEqual([empty.state, empty.members], [5, []]);
});

test('consumer_protocol_crash', async (t) => {
  await topic(t, { partitions: 4 });
  const one = await producer(t);
  const [stays, dies] = [member(t, 'stays'), member(t, 'dies')];
  await Promise.all([stays.owns(2), dies.owns(2)]);
  const orphans = dies.partitions;
  await dies.kill();
  await one.send({ topic: t.topic, messages: orphans.map((partition) => ({ partition, value: `for ${partition}` })) });
  await stays.owns(4);
  await until(
    () => stays.records.length === 2,
    () => `the records of the dead: ${JSON.stringify(stays.records)}`,
  );
});

test('consumer_protocol_static_member', async (t) => {
  await topic(t, { partitions: 4 });
  const stays = member(t, 'stays', { instance: 'a' });
  let returns = member(t, 'returns', { instance: 'b' });
  await Promise.all([stays.owns(2), returns.owns(2)]);
  const [before, owned] = [stays.assignments.length, returns.partitions];
  await returns.leave(); // for a while, as the broker is told
  returns = member(t, 'returns', { instance: 'b' });
  await returns.owns(2);
  assert.deepEqual(returns.partitions, owned);
  await pause(500); // two heartbeats
  assert.equal(stays.assignments.length, before);
});

test('consumer_protocol_regex', async (t) => {
  await topic(t, { name: `${t.topic}.a`, partitions: 2 });
  await topic(t, { name: `not-${t.topic}.a` });
  const one = member(t, 'one', { pattern: `^${t.topic}\\..*` });
  await one.owns(2);
});

test('consumer_protocol_commit_and_resume', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(20).map((n) => ({ value: String(n) })) });
  const first = await modern(t);
  let before = 0;
  await first.subscribe({ topics: [t.topic] });
  await first.run({ eachMessage: async () => void (before += 1) });
  await until(() => before === 20, '20 records');
  await first.commitOffsets([{ topic: t.topic, partition: 0, offset: '7' }]);
  await first.disconnect();
  const rest = [];
  const second = await modern(t);
  await second.subscribe({ topics: [t.topic] });
  await second.run({ eachMessage: async ({ message }) => void rest.push(message) });
  await until(() => rest.length === 13, '13 records');
  assert.deepEqual(values(rest), numbers(13, 7).map(String));
});

test('consumer_protocol_transaction_offsets', async (t) => {
  await topic(t);
  await topic(t, { name: `${t.topic}-out` });
  const plain = await producer(t);
  await plain.send({ topic: t.topic, messages: numbers(10).map((n) => ({ value: String(n) })) });
  const source = await modern(t); // its member epoch goes along with the offsets
  let read = 0;
  await source.subscribe({ topics: [t.topic] });
  await source.run({ eachMessage: async () => void (read += 1) });
  await until(() => read === 10, 'ten records');
  const one = await producer(t, { transactionalId: `${t.name}-${t.group}`, transactionTimeout: 10000 });
  const done = await one.transaction();
  await done.send({ topic: `${t.topic}-out`, messages: [{ value: 'this' }] });
  await done.sendOffsets({
    consumer: source,
    topics: [{ topic: t.topic, partitions: [{ partition: 0, offset: '4' }] }],
  });
  await done.commit();
  const boss = await admin(t);
  await until(async () => {
    const [{ partitions }] = await boss.fetchOffsets({ groupId: t.group, topics: [{ topic: t.topic, partitions: [0] }] });
    return partitions[0].offset === '4';
  }, 'the offset of the transaction');
  assert.deepEqual(values(await readAll(t, `${t.topic}-out`, 1)), ['this']);
});

test(
  'consumer_protocol_broker_restart',
  async (t) => {
    needsRestarts();
    await topic(t, { partitions: 4 });
    const members = [member(t, 'one'), member(t, 'two')];
    await Promise.all(members.map((one) => one.owns(2)));
    await restartBroker();
    const one = await producer(t);
    await one.send({ topic: t.topic, messages: numbers(4).map((partition) => ({ partition, value: 'after' })) });
    const values = () => new Set(members.flatMap(({ records }) => records.map(({ partition }) => partition)));
    await until(() => values().size === 4, 'a record of each partition');
  },
  { seconds: 90 },
);
