'use strict';
// Consumer groups. kafkajs has neither static members nor cooperative rebalancing.

const net = require('node:net');
const path = require('node:path');
const { AssignerProtocol } = require('kafkajs');
const {
  assert,
  BROKERS,
  Member,
  needsRestarts,
  numbers,
  pause,
  restartBroker,
  skip,
  sorted,
  test,
  until,
} = require('../javascript/harness');
const { admin, consumer, kafka, logged, producer, readAll, topic, values } = require('./client');

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
  assert.deepEqual([group.state, group.protocolType, group.protocol], ['Stable', 'consumer', 'RoundRobinAssigner']);
  assert.deepEqual(sorted(group.members.map(({ clientId }) => clientId)), ['one', 'three', 'two']);
  assert.deepEqual(
    sorted(group.members.map(({ memberId }) => memberId)),
    sorted([one, two, three].map((m) => m.memberId)),
  );
  await two.leave();
  await Promise.all([one.owns(3), three.owns(3)]);
  await Promise.all([one.leave(), three.leave()]);
  const {
    groups: [empty],
  } = await boss.describeGroups([t.group]);
  assert.deepEqual([empty.state, empty.members], ['Empty', []]);
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

test('commit_and_resume', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(20).map((n) => ({ value: String(n) })) });
  const first = await consumer(t, t.group);
  const before = [];
  await first.subscribe({ topics: [t.topic], fromBeginning: true });
  await first.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      before.push(message.offset);
      if (message.offset === '6') {
        await first.commitOffsets([{ topic: t.topic, partition, offset: '7', metadata: 'seven read' }]);
      }
    },
  });
  await until(() => before.length === 20, '20 records');
  await first.disconnect();
  const boss = await admin(t);
  const [
    {
      partitions: [committed],
    },
  ] = await boss.fetchOffsets({ groupId: t.group, topics: [t.topic] });
  assert.deepEqual([committed.offset, committed.metadata], ['7', 'seven read']);
  const rest = await readAll(t, t.topic, 13, { group: t.group });
  assert.deepEqual(values(rest), numbers(13, 7).map(String));
});

test('a_slow_member_is_put_out_and_comes_back', async (t) => {
  if (BROKERS.length > 1) skip('it fetches from each broker, and a fetch that brings nothing sends a heartbeat');
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(3).map((n) => ({ value: String(n) })) });
  const reader = await consumer(t, t.group, { sessionTimeout: 1000 });
  const joined = new Set();
  reader.on(reader.events.GROUP_JOIN, ({ payload }) => joined.add(payload.memberId));
  const got = [];
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({
    eachMessage: async ({ message, heartbeat }) => {
      got.push(message.value.toString());
      if (got.length > 1) return;
      await pause(2000); // no heartbeat for two sessions
      await heartbeat();
    },
  });
  await until(
    () => got.includes('2'),
    () => `all three: ${got}`,
  );
  assert.equal(joined.size, 2); // it came back as another member
  assert.deepEqual(got, ['0', '0', '1', '2']); // nothing was committed of what it did too late
});

test('partitions_that_are_added_are_read', async (t) => {
  await topic(t);
  const boss = await admin(t);
  const reader = await consumer(t, t.group, { metadataMaxAge: 300 });
  let owned = 0;
  const got = new Set();
  reader.on(reader.events.GROUP_JOIN, ({ payload }) => (owned = payload.memberAssignment[t.topic].length));
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ eachMessage: async ({ partition }) => void got.add(partition) });
  await until(() => owned === 1, 'the first partition');
  await boss.createPartitions({ topicPartitions: [{ topic: t.topic, count: 3 }] });
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(3).map((partition) => ({ partition, value: 'x' })) });
  await until(
    () => owned === 3 && got.size === 3,
    () => `three partitions: ${owned} ${[...got]}`,
  );
});

test('group_with_an_assignor_that_others_know', async (t) => {
  // kafkajs has one of its own only; those who share a group with other clients write theirs.
  const { MemberAssignment, MemberMetadata } = AssignerProtocol;
  const ours = ({ cluster }) => ({
    name: 'range',
    version: 1,
    protocol: ({ topics }) => ({
      name: 'range',
      metadata: MemberMetadata.encode({ version: 1, topics, userData: Buffer.from('mine') }),
    }),
    assign: async ({ members, topics: [name] }) => {
      const partitions = cluster.findTopicPartitionMetadata(name).map(({ partitionId }) => partitionId);
      return members.map(({ memberId, memberMetadata }, at) => {
        assert.deepEqual(MemberMetadata.decode(memberMetadata).userData, Buffer.from('mine'));
        const assignment = { [name]: partitions.filter((partition) => partition % members.length === at) };
        return {
          memberId,
          memberAssignment: MemberAssignment.encode({ version: 1, assignment, userData: Buffer.from('yours') }),
        };
      });
    },
  });
  await topic(t, { partitions: 4 });
  const owned = [];
  for (const n of numbers(2)) {
    const reader = await consumer(t, t.group, { partitionAssigners: [ours] });
    reader.on(reader.events.GROUP_JOIN, ({ payload }) => {
      assert.equal(payload.groupProtocol, 'range');
      owned[n] = payload.memberAssignment[t.topic];
    });
    await reader.subscribe({ topics: [t.topic] });
    await reader.run({ eachMessage: async () => {} });
  }
  await until(
    () => owned.length === 2 && owned[0].length === 2,
    () => JSON.stringify(owned),
  );
  assert.deepEqual(sorted(owned.flat()), numbers(4));
  const boss = await admin(t);
  const {
    groups: [group],
  } = await boss.describeGroups([t.group]);
  assert.equal(group.protocol, 'range');
  assert.deepEqual(MemberAssignment.decode(group.members[0].memberAssignment).userData, Buffer.from('yours'));
});

test('empty_group_id', async (t) => {
  await topic(t);
  const one = kafka({ retry: { retries: 1, initialRetryTime: 20 } });
  await assert.rejects(async () => {
    const reader = one.consumer({ groupId: '' });
    t.closing.add(() => reader.disconnect());
    await reader.connect();
    await reader.subscribe({ topics: [t.topic] });
    await reader.run({ eachMessage: async () => {} });
    await new Promise((_, reject) => reader.on(reader.events.CRASH, ({ payload }) => reject(payload.error)));
  });
});

test('members_come_and_go_without_unknown_member_errors', async (t) => {
  await topic(t, { partitions: 6 });
  const one = await producer(t);
  const from = logged.length;
  const seen = new Set();
  const joiners = [];
  for (const n of numbers(4)) {
    const reader = await consumer(t, t.group);
    await reader.subscribe({ topics: [t.topic], fromBeginning: true });
    await reader.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ message }) => void seen.add(message.value.toString()),
    });
    joiners.push(reader);
    await one.send({ topic: t.topic, messages: numbers(30).map((m) => ({ partition: m % 6, value: `${n}:${m}` })) });
  }
  for (const reader of joiners.slice(1)) {
    await reader.disconnect();
    await one.send({
      topic: t.topic,
      messages: numbers(6).map((partition) => ({ partition, value: `${joiners.indexOf(reader)}>${partition}` })),
    });
  }
  await until(
    () => seen.size === 4 * 30 + 3 * 6,
    () => `every record: ${seen.size}`,
  );
  // Of several brokers, it joins anew at one while what it fetches from the others has it send heartbeats.
  const sign = BROKERS.length > 1 ? /not aware of this member/i : /not aware of this member|generation/i;
  const bad = logged.slice(from).filter((line) => sign.test(line));
  assert.deepEqual(bad, []);
});

// A proxy between one client and the broker, so that an answer can be lost on the way.
function losing(marker) {
  const state = { lost: 0, wanted: 1 };
  state.socketFactory = ({ host, port, onConnect }) => {
    const socket = net.connect({ host, port }, onConnect);
    const write = socket.write.bind(socket);
    socket.write = (data, ...rest) => {
      const written = write(data, ...rest);
      if (state.lost < state.wanted && Buffer.isBuffer(data) && data.includes(marker)) {
        state.lost += 1;
        socket.removeAllListeners('data');
        setTimeout(() => socket.destroy(new Error('lost on the way')), 200);
      }
      return written;
    };
    return socket;
  };
  return state;
}

test('idempotent_producer', async (t) => {
  await topic(t);
  const road = losing('the answer to this is lost');
  const of = kafka({ socketFactory: road.socketFactory });
  const one = await producer(t, { idempotent: true, maxInFlightRequests: 1 }, of);
  for (const n of numbers(5)) {
    await one.send({ topic: t.topic, messages: [{ value: n === 2 ? 'the answer to this is lost' : String(n) }] });
  }
  assert.equal(road.lost, 1);
  const boss = await admin(t);
  const [{ high }] = await boss.fetchTopicOffsets(t.topic);
  assert.equal(high, '5');
  assert.deepEqual(values(await readAll(t, t.topic, 5)), ['0', '1', 'the answer to this is lost', '3', '4']);
});

test('a_producer_without_idempotence_repeats_itself', async (t) => {
  await topic(t);
  const road = losing('sent twice');
  const one = await producer(t, {}, kafka({ socketFactory: road.socketFactory }));
  await one.send({ topic: t.topic, messages: [{ value: 'sent twice' }] });
  assert.deepEqual(values(await readAll(t, t.topic, 2)), ['sent twice', 'sent twice']);
});

test(
  'broker_restart',
  async (t) => {
    needsRestarts();
    await topic(t, { partitions: 2 });
    const patient = kafka({ retry: { initialRetryTime: 100, retries: 20, maxRetryTime: 500 } });
    const one = await producer(t, { idempotent: true, maxInFlightRequests: 1 }, patient);
    const reader = await consumer(t, t.group, {}, patient);
    const got = [];
    await reader.subscribe({ topics: [t.topic], fromBeginning: true });
    await reader.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ message }) => void got.push(message.value.toString()),
    });
    const send = (n) => one.send({ topic: t.topic, messages: [{ partition: n % 2, value: String(n) }] });
    for (const n of numbers(10)) await send(n);
    await until(
      () => got.length >= 10,
      () => `ten records: ${got}`,
    );
    await restartBroker();
    for (const n of numbers(10, 10)) await send(n);
    await until(
      () => new Set(got).size === 20,
      () => `twenty records: ${got}`,
    );
    const boss = await admin(t);
    const offsets = await boss.fetchTopicOffsets(t.topic);
    assert.deepEqual(sorted(offsets.map(({ high }) => high)), ['10', '10']);
    await reader.disconnect();
    const [{ partitions }] = await boss.fetchOffsets({ groupId: t.group, topics: [t.topic] });
    assert.deepEqual(sorted(partitions.map(({ offset }) => offset)), ['10', '10']);
  },
  { seconds: 90 },
);
