'use strict';
// Producing and reading.

const { createReadStream, createWriteStream } = require('@confluentinc/kafka-javascript');
const { assert, BOOTSTRAP, numbers, sorted, storedCodec, test, until } = require('../javascript/harness');
const { admin, callbackAdmin, consumer, failing, producer, readAll, topic, values } = require('./client');

test('produce_and_consume', async (t) => {
  await topic(t, { partitions: 3 });
  const one = await producer(t);
  const sent = numbers(300).map((n) => ({ key: `k${n % 10}`, value: `v${n}` }));
  const wanted = sent.map((message) => message.value); // the client turns those of the messages into buffers
  const answers = await one.send({ topic: t.topic, messages: sent });
  assert.deepEqual(sorted(new Set(answers.map((answer) => answer.partition))), [0, 1, 2]);
  assert.ok(answers.every((answer) => answer.errorCode === 0 && Number(answer.baseOffset) >= 0));
  const records = await readAll(t, t.topic, 300);
  assert.deepEqual(sorted(values(records)), sorted(wanted));
  const lastOf = new Map();
  for (const { key, value } of records) {
    const number = Number(value.toString().slice(1));
    assert.ok((lastOf.get(key.toString()) ?? -1) < number, 'records of a key are in order');
    lastOf.set(key.toString(), number);
  }
});

for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
  test(`codec_${codec}`, async (t) => {
    await topic(t);
    const one = await producer(t, { compression: codec });
    const messages = numbers(50).map((n) => ({ key: `k${n}`, value: `${n} ${'squeeze me '.repeat(200)}` }));
    const wanted = messages.map((message) => message.value);
    await one.send({ topic: t.topic, messages });
    const records = await readAll(t, t.topic, 50, { rest: { 'check.crcs': true } });
    assert.deepEqual(values(records), wanted);
    assert.equal(await storedCodec(t.topic), codec);
  });
}

test('headers_keys_tombstones', async (t) => {
  await topic(t);
  const one = await producer(t);
  const bytes = Buffer.from([0, 255, 128, 10]);
  for (const message of [
    { key: 'a', value: 'plain', headers: { one: 'first', raw: bytes, twice: ['x', 'y'], empty: '' } },
    { key: 'a', value: null },
    { key: null, value: '' },
    { key: bytes, value: bytes, timestamp: '1600000000000' },
  ])
    await one.send({ topic: t.topic, messages: [message] });
  const [first, tombstone, empty, binary] = await readAll(t, t.topic, 4);
  assert.equal(first.headers.one.toString(), 'first');
  assert.deepEqual(first.headers.raw, bytes);
  assert.deepEqual(first.headers.twice.map(String), ['x', 'y']);
  assert.equal(first.headers.empty.length, 0);
  assert.deepEqual([tombstone.key.toString(), tombstone.value], ['a', null]);
  assert.equal(empty.key, null);
  assert.ok(empty.value === null || empty.value.length === 0); // this client does not tell them apart
  assert.deepEqual([binary.key, binary.value, binary.timestamp], [bytes, bytes, '1600000000000']);
});

test('big_messages', async (t) => {
  await topic(t, { config: { 'max.message.bytes': '3000000' } });
  const one = await producer(t, {}, { 'message.max.bytes': 10_000_000 });
  const value = Buffer.alloc(2_500_000, 'abc');
  for (const key of ['x', 'y']) await one.send({ topic: t.topic, messages: [{ key, value }] });
  // A fetch smaller than the batch gets the whole batch all the same (KIP-74).
  const rest = { 'fetch.message.max.bytes': 1000, 'fetch.max.bytes': 10_000, 'message.max.bytes': 9000 };
  const records = await readAll(t, t.topic, 2, { rest });
  assert.ok(records.every((record) => record.value.equals(value)));
  await assert.rejects(
    one.send({ topic: t.topic, messages: [{ value: Buffer.alloc(3_100_000) }] }),
    failing('ERR_MSG_SIZE_TOO_LARGE'),
  );
});

test('read_from_timestamp', async (t) => {
  await topic(t);
  const one = await producer(t);
  const start = 1_700_000_000_000;
  for (const n of numbers(5)) {
    const messages = numbers(4).map((m) => ({ value: `${n}.${m}`, timestamp: String(start + n * 1000 + m) }));
    await one.send({ topic: t.topic, messages });
  }
  const boss = await admin(t);
  const [{ offset }] = await boss.fetchTopicOffsetsByTimestamp(t.topic, start + 2002);
  assert.equal(offset, '10');
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
  reader.seek({ topic: t.topic, partition: 0, offset });
  await until(
    () => got.includes('4.3') && got.includes('2.2'),
    () => `the last ten: ${got}`,
  );
  assert.deepEqual(got.slice(got.indexOf('2.2'), got.indexOf('2.2') + 2), ['2.2', '2.3']);
});

test('pause_and_resume', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t);
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async ({ partition, message }) => void got.push(`${partition}:${message.value}`) });
  await until(() => reader.assignment().length === 2, 'both partitions');
  reader.pause([{ topic: t.topic, partitions: [0] }]);
  await one.send({
    topic: t.topic,
    messages: [
      { partition: 0, value: 'a' },
      { partition: 1, value: 'b' },
    ],
  });
  await until(
    () => got.includes('1:b'),
    () => `the other partition: ${got}`,
  );
  assert.deepEqual(got, ['1:b']);
  reader.resume([{ topic: t.topic, partitions: [0] }]);
  await until(
    () => got.includes('0:a'),
    () => `the paused partition: ${got}`,
  );
});

test('regular_expression', async (t) => {
  const names = ['one', 'two'].map((word) => `${t.topic}.${word}`);
  for (const name of names) await topic(t, { name });
  const one = await producer(t);
  for (const name of names) await one.send({ topic: name, messages: [{ value: name }] });
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [new RegExp(`^${t.topic}\\..*`)] });
  await reader.run({ eachMessage: async ({ topic: from }) => void got.push(from) });
  await until(
    () => got.length === 2,
    () => `both topics: ${got}`,
  );
  assert.deepEqual(sorted(got), names);
});

test('partitions_that_are_added_are_read', async (t) => {
  await topic(t, { partitions: 1 });
  const reader = await consumer(t, t.group, { metadataMaxAge: 300 });
  const got = [];
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async ({ partition }) => void got.push(partition) });
  await until(() => reader.assignment().length === 1, 'the first partition');
  await callbackAdmin(t, 'createPartitions', t.topic, 3, 5000);
  await until(() => reader.assignment().length === 3, 'three partitions');
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(3).map((partition) => ({ partition, value: 'x' })) });
  await until(
    () => new Set(got).size === 3,
    () => `all partitions: ${got}`,
  );
});

test('topics_are_created_on_demand', async (t) => {
  const one = await producer(t, { allowAutoTopicCreation: true });
  await one.send({ topic: t.topic, messages: [{ value: 'first' }] });
  assert.deepEqual(values(await readAll(t, t.topic, 1)), ['first']);
});

test('invalid_topic_names', async (t) => {
  const one = await producer(t, {}, { 'message.timeout.ms': 5000 });
  await assert.rejects(one.send({ topic: 'spaces are not', messages: [{ value: 'x' }] }));
});

test('acks_0_and_1', async (t) => {
  await topic(t);
  for (const acks of [0, 1, -1]) {
    const one = await producer(t, { acks });
    await one.send({ topic: t.topic, messages: [{ value: String(acks) }] });
    await one.flush({ timeout: 5000 });
  }
  assert.deepEqual(values(await readAll(t, t.topic, 3)), ['0', '1', '-1']);
});

test('idempotent_producer', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t, { idempotent: true }, { 'batch.num.messages': 7 });
  await Promise.all(
    numbers(500).map((n) => one.send({ topic: t.topic, messages: [{ partition: n % 2, value: String(n) }] })),
  );
  const records = await readAll(t, t.topic, 500);
  for (const wanted of [0, 1]) {
    const got = values(records.filter(({ partition }) => partition === wanted));
    assert.deepEqual(
      got,
      numbers(250).map((n) => String(2 * n + wanted)),
    );
  }
});

test('streams', async (t) => {
  await topic(t);
  const settings = { 'bootstrap.servers': BOOTSTRAP };
  const out = createWriteStream({ ...settings, 'linger.ms': 0 }, {}, { topic: t.topic });
  for (const n of numbers(20)) out.write(Buffer.from(String(n)));
  const stream = createReadStream(
    { ...settings, 'group.id': t.group, 'fetch.wait.max.ms': 100 },
    { 'auto.offset.reset': 'earliest' },
    { topics: [t.topic] },
  );
  const got = [];
  stream.on('data', (message) => got.push(message.value.toString()));
  t.closing.add(() => new Promise((resolve) => stream.close(resolve)));
  t.closing.add(() => new Promise((resolve) => out.close(resolve)));
  await until(
    () => got.length === 20,
    () => `twenty records: ${got}`,
  );
  assert.deepEqual(got, numbers(20).map(String));
});
