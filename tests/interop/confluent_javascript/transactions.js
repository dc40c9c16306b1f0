'use strict';

const { assert, needsRestarts, numbers, restartBroker, test, until } = require('../javascript/harness');
const { admin, consumer, producer, readAll, topic, values } = require('./client');

const transactional = (t, id = t.name) =>
  producer(t, { transactionalId: `${id}-${t.group}`, transactionTimeout: 10000 });

test('transaction_commit', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await transactional(t);
  for (const round of numbers(3)) {
    const transaction = await one.transaction();
    await transaction.send({
      topic: t.topic,
      messages: [
        { partition: 0, value: `a${round}` },
        { partition: 1, value: `b${round}` },
      ],
    });
    assert.ok(transaction.isActive());
    await transaction.commit();
  }
  const records = await readAll(t, t.topic, 6);
  assert.deepEqual(values(records.filter(({ partition }) => partition === 0)), ['a0', 'a1', 'a2']);
  assert.deepEqual(values(records.filter(({ partition }) => partition === 1)), ['b0', 'b1', 'b2']);
  // Each transaction ends with a marker that takes an offset.
  assert.deepEqual(
    records.filter(({ partition }) => partition === 0).map(({ offset }) => offset),
    ['0', '2', '4'],
  );
});

test('transaction_abort', async (t) => {
  await topic(t);
  const one = await transactional(t);
  const aborted = await one.transaction();
  await aborted.send({ topic: t.topic, messages: [{ value: 'never' }, { value: 'shown' }] });
  await aborted.abort();
  const committed = await one.transaction();
  await committed.send({ topic: t.topic, messages: [{ value: 'shown at last' }] });
  await committed.commit();
  assert.deepEqual(values(await readAll(t, t.topic, 1)), ['shown at last']);
  const dirty = await readAll(t, t.topic, 3, { options: { readUncommitted: true }, group: `${t.group}-dirty` });
  assert.deepEqual(values(dirty), ['never', 'shown', 'shown at last']);
});

test('an_open_transaction_holds_readers_back', async (t) => {
  await topic(t);
  const [plain, one] = [await producer(t), await transactional(t)];
  const open = await one.transaction();
  await open.send({ topic: t.topic, messages: [{ value: 'in it' }] });
  await plain.send({ topic: t.topic, messages: [{ value: 'behind it' }] });
  const got = [];
  const reader = await consumer(t, t.group);
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
  const dirty = await readAll(t, t.topic, 2, { options: { readUncommitted: true }, group: `${t.group}-dirty` });
  assert.deepEqual(values(dirty), ['in it', 'behind it']);
  assert.deepEqual(got, []);
  await open.commit();
  await until(
    () => got.length === 2,
    () => `both records: ${got}`,
  );
});

test('transaction_offsets', async (t) => {
  await topic(t);
  await topic(t, { name: `${t.topic}-out` });
  const plain = await producer(t);
  await plain.send({ topic: t.topic, messages: numbers(10).map((n) => ({ value: String(n) })) });
  const boss = await admin(t);
  const committed = async () => {
    const [
      {
        partitions: [{ offset }],
      },
    ] = await boss.fetchOffsets({
      groupId: t.group,
      topics: [{ topic: t.topic, partitions: [0] }],
      requireStableOffsets: true,
    });
    return offset;
  };
  const source = await consumer(t, t.group); // its generation goes along with the offsets (KIP-447)
  let read = 0;
  await source.subscribe({ topics: [t.topic] });
  await source.run({ eachMessage: async () => void (read += 1) });
  await until(() => read === 10, 'ten records');
  const one = await transactional(t);
  const offsets = (offset) => ({
    consumer: source,
    topics: [{ topic: t.topic, partitions: [{ partition: 0, offset }] }],
  });
  const aborted = await one.transaction();
  await aborted.send({ topic: `${t.topic}-out`, messages: [{ value: 'not this' }] });
  await aborted.sendOffsets(offsets('9'));
  await aborted.abort();
  assert.equal(Number(await committed()) < 0, true);
  const done = await one.transaction();
  await done.send({ topic: `${t.topic}-out`, messages: [{ value: 'this' }] });
  await done.sendOffsets(offsets('4'));
  await done.commit();
  await until(async () => (await committed()) === '4', 'the offset of the transaction');
  await source.disconnect();
  assert.deepEqual(values(await readAll(t, `${t.topic}-out`, 1)), ['this']);
  assert.deepEqual(values(await readAll(t, t.topic, 6, { group: t.group })), numbers(6, 4).map(String));
});

test('a_second_producer_of_an_id_fences_the_first', async (t) => {
  await topic(t);
  const first = await transactional(t);
  const stale = await first.transaction();
  await stale.send({ topic: t.topic, messages: [{ value: 'of the first' }] });
  const second = await transactional(t);
  const fresh = await second.transaction();
  await fresh.send({ topic: t.topic, messages: [{ value: 'of the second' }] });
  await fresh.commit();
  await assert.rejects(stale.commit(), (error) => /fenced/i.test(error.message));
  assert.deepEqual(values(await readAll(t, t.topic, 1)), ['of the second']);
});

test(
  'a_transaction_goes_on_when_the_broker_restarts',
  async (t) => {
    needsRestarts();
    await topic(t);
    const one = await transactional(t);
    const ends = { commit: ['a', 'b'], abort: ['c', 'd'] };
    for (const [end, [before, after]] of Object.entries(ends)) {
      const transaction = await one.transaction();
      await transaction.send({ topic: t.topic, messages: [{ value: before }] });
      await restartBroker();
      await transaction.send({ topic: t.topic, messages: [{ value: after }] });
      await transaction[end]();
    }
    const last = await one.transaction();
    await last.send({ topic: t.topic, messages: [{ value: 'e' }] });
    await last.commit();
    assert.deepEqual(values(await readAll(t, t.topic, 3)), ['a', 'b', 'e']);
  },
  { seconds: 90 },
);
