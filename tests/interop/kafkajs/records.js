'use strict';
// Producing and reading.

const { assert, numbers, pause, sorted, storedCodec, test, until } = require('../javascript/harness');
const { admin, CompressionTypes, consumer, failing, kafka, producer, readAll, topic, values } = require('./client');

test('produce_and_consume', async (t) => {
  await topic(t, { partitions: 3 });
  const one = await producer(t);
  const sent = numbers(300).map((n) => ({ key: `k${n % 10}`, value: `v${n}` }));
  const answers = await one.send({ topic: t.topic, messages: sent });
  assert.deepEqual(sorted(answers.map((answer) => answer.partition)), [0, 1, 2]);
  for (const answer of answers) {
    assert.equal(answer.errorCode, 0);
    assert.equal(answer.baseOffset, '0');
    assert.equal(answer.logStartOffset, '0');
  }
  const records = await readAll(t, t.topic, 300);
  assert.deepEqual(sorted(values(records)), sorted(sent.map((message) => message.value)));
  const lastOf = new Map();
  for (const { key, value } of records) {
    const number = Number(value.toString().slice(1));
    assert.ok((lastOf.get(key.toString()) ?? -1) < number, 'records of a key are in order');
    lastOf.set(key.toString(), number);
  }
});

const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' };
for (const [codec, name] of Object.entries(CODECS)) {
  test(`codec_${codec}`, async (t) => {
    await topic(t);
    const one = await producer(t);
    const messages = numbers(50).map((n) => ({ key: `k${n}`, value: `${n} ${'squeeze me '.repeat(200)}` }));
    const compression = CompressionTypes[name];
    await one.send({ topic: t.topic, compression, messages });
    await one.send({ topic: t.topic, compression, messages: [{ value: 'alone' }] });
    const records = await readAll(t, t.topic, 51);
    assert.deepEqual(values(records), [...messages.map((message) => message.value), 'alone']);
    assert.equal(await storedCodec(t.topic), codec);
  });
}

test('headers_keys_tombstones', async (t) => {
  await topic(t);
  const one = await producer(t);
  const bytes = Buffer.from([0, 255, 128, 10]);
  await one.send({
    topic: t.topic,
    messages: [
      { key: 'a', value: 'plain', headers: { one: 'first', raw: bytes, twice: ['x', 'y'], empty: '' } },
      { key: 'a', value: null },
      { key: null, value: '' },
      { key: bytes, value: bytes, timestamp: '1600000000000' },
    ],
  });
  const [first, tombstone, empty, binary] = await readAll(t, t.topic, 4);
  assert.equal(first.headers.one.toString(), 'first');
  assert.deepEqual(first.headers.raw, bytes);
  assert.deepEqual(first.headers.twice.map(String), ['x', 'y']);
  assert.equal(first.headers.empty.length, 0);
  assert.deepEqual([tombstone.key.toString(), tombstone.value], ['a', null]);
  assert.deepEqual([empty.key, empty.value.length], [null, 0]);
  assert.deepEqual([binary.key, binary.value, binary.timestamp], [bytes, bytes, '1600000000000']);
});

test('big_messages', async (t) => {
  await topic(t);
  const one = await producer(t);
  const value = Buffer.alloc(900_000, 'abc');
  for (const key of ['x', 'y']) await one.send({ topic: t.topic, messages: [{ key, value }] });
  // A fetch smaller than the batch gets the whole batch all the same (KIP-74).
  const records = await readAll(t, t.topic, 2, { options: { maxBytesPerPartition: 1000, maxBytes: 2000 } });
  assert.ok(records.every((record) => record.value.equals(value)));
  await assert.rejects(
    one.send({ topic: t.topic, messages: [{ value: Buffer.alloc(1_100_000) }] }),
    failing('MESSAGE_TOO_LARGE'),
  );
});

test('read_from_timestamp', async (t) => {
  await topic(t);
  const one = await producer(t);
  const start = 1_700_000_000_000;
  for (const n of numbers(5)) {
    await one.send({
      topic: t.topic,
      messages: numbers(4).map((m) => ({ value: `${n}.${m}`, timestamp: String(start + n * 1000 + m) })),
    });
  }
  const boss = await admin(t);
  const [{ offset }] = await boss.fetchTopicOffsetsByTimestamp(t.topic, start + 2002);
  assert.equal(offset, '10');
  const [{ offset: past }] = await boss.fetchTopicOffsetsByTimestamp(t.topic, start + 9000);
  assert.equal(past, '20'); // kafkajs asks for the end where there is none
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic] });
  await reader.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
  reader.seek({ topic: t.topic, partition: 0, offset });
  await until(
    () => got.length >= 10,
    () => `10 records: ${got}`,
  );
  assert.equal(got[0], '2.2');
});

test('each_batch_with_transparent_resolving', async (t) => {
  await topic(t, { partitions: 4 });
  const one = await producer(t);
  await one.sendBatch({
    acks: -1,
    topicMessages: numbers(4).map((partition) => ({
      topic: t.topic,
      messages: numbers(25).map((n) => ({ partition, value: `${partition}:${n}` })),
    })),
  });
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({
    partitionsConsumedConcurrently: 4,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning }) => {
      assert.equal(batch.highWatermark, '25');
      for (const message of batch.messages) {
        if (!isRunning()) return;
        got.push(message.value.toString());
        resolveOffset(message.offset);
        await heartbeat();
      }
      await commitOffsetsIfNecessary();
    },
  });
  await until(
    () => got.length >= 100,
    () => `100 records: ${got.length}`,
  );
  assert.equal(new Set(got).size, 100);
});

test('pause_and_resume', async (t) => {
  await topic(t, { partitions: 2 });
  const one = await producer(t);
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ eachMessage: async ({ partition, message }) => void got.push(`${partition}:${message.value}`) });
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
  assert.deepEqual(reader.paused(), [{ topic: t.topic, partitions: [0] }]);
  assert.deepEqual(got, ['1:b']);
  reader.resume([{ topic: t.topic }]);
  await until(
    () => got.includes('0:a'),
    () => `the paused partition: ${got}`,
  );
});

test('regular_expression_and_new_topics', async (t) => {
  const names = ['one', 'two'].map((word) => `${t.topic}.${word}`);
  for (const name of names) await topic(t, { name });
  const one = await producer(t);
  for (const name of names) await one.send({ topic: name, messages: [{ value: name }] });
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [new RegExp(`^${t.topic}\\.`)], fromBeginning: true });
  await reader.run({ eachMessage: async ({ topic: from }) => void got.push(from) });
  await until(
    () => got.length === 2,
    () => `both topics: ${got}`,
  );
  assert.deepEqual(sorted(got), names);
});

test('topics_are_created_on_demand', async (t) => {
  const one = await producer(t, { allowAutoTopicCreation: true });
  const [answer] = await one.send({ topic: t.topic, messages: [{ value: 'first' }] });
  assert.equal(answer.errorCode, 0);
  assert.deepEqual(values(await readAll(t, t.topic, 1)), ['first']);
  const two = await producer(t, { allowAutoTopicCreation: false, retry: { retries: 1, initialRetryTime: 20 } });
  await assert.rejects(
    two.send({ topic: `${t.topic}-not`, messages: [{ value: 'x' }] }),
    failing('UNKNOWN_TOPIC_OR_PARTITION'),
  );
});

test('invalid_topic_names', async (t) => {
  const one = await producer(t, { retry: { retries: 1, initialRetryTime: 20 } });
  for (const name of ['spaces are not', 'no/slash', 'x'.repeat(250)]) {
    await assert.rejects(one.send({ topic: name, messages: [{ value: 'x' }] }), failing('INVALID_TOPIC_EXCEPTION'));
  }
  const boss = await admin(t);
  assert.ok(!(await boss.listTopics()).some((name) => name.includes(' ')));
});

test('acks_0_and_1', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, acks: 0, messages: [{ value: 'none' }] });
  await one.send({ topic: t.topic, acks: 1, messages: [{ value: 'leader' }] });
  await one.send({ topic: t.topic, acks: -1, messages: [{ value: 'all' }] });
  assert.deepEqual(values(await readAll(t, t.topic, 3)), ['none', 'leader', 'all']);
});

test('offset_out_of_range_goes_to_the_start', async (t) => {
  await topic(t);
  const one = await producer(t);
  await one.send({ topic: t.topic, messages: numbers(10).map((n) => ({ value: String(n) })) });
  const boss = await admin(t);
  await boss.fetchTopicOffsets(t.topic); // deleteTopicRecords looks up no leaders itself
  await boss.deleteTopicRecords({ topic: t.topic, partitions: [{ partition: 0, offset: '4' }] });
  const before = await consumer(t, t.group);
  await before.subscribe({ topics: [t.topic] });
  await before.run({ autoCommit: false, eachMessage: async () => {} });
  await until(
    () =>
      before.commitOffsets([{ topic: t.topic, partition: 0, offset: '1' }]).then(
        () => true,
        () => false,
      ),
    'a commit',
  );
  await before.disconnect();
  const reader = await consumer(t, t.group);
  const got = [];
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ eachMessage: async ({ message }) => void got.push(message.value.toString()) });
  await until(
    () => got.length >= 6,
    () => `six records: ${got}`,
  );
  assert.deepEqual(got, ['4', '5', '6', '7', '8', '9']);
});

test('a_long_poll_ends_when_a_record_arrives', async (t) => {
  await topic(t);
  const one = await producer(t);
  const reader = await consumer(t, t.group, { maxWaitTimeInMs: 4000 });
  let arrived = 0;
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ eachMessage: async () => void (arrived = Date.now()) });
  await pause(800); // the fetch waits at the broker by now
  const sent = Date.now();
  await one.send({ topic: t.topic, messages: [{ value: 'now' }] });
  await until(() => arrived, 'the record', 5);
  assert.ok(arrived - sent < 2000, `it took ${arrived - sent} ms`);
});

test('many_requests_on_one_connection', async (t) => {
  await topic(t, { partitions: 6 });
  const one = await producer(t, { maxInFlightRequests: 20 });
  await Promise.all(
    numbers(200).map((n) => one.send({ topic: t.topic, messages: [{ partition: n % 6, value: String(n) }] })),
  );
  const records = await readAll(t, t.topic, 200);
  assert.equal(new Set(values(records)).size, 200);
});

test('newest_versions_it_knows_are_used', async (t) => {
  await topic(t);
  const seen = new Map();
  const of = kafka();
  const one = of.producer();
  one.on(one.events.REQUEST, ({ payload }) => seen.set(payload.apiName, payload.apiVersion));
  t.closing.add(() => one.disconnect());
  await one.connect();
  await one.send({ topic: t.topic, messages: [{ value: 'x' }] });
  const reader = of.consumer({ groupId: t.group, heartbeatInterval: 100, maxWaitTimeInMs: 100 });
  reader.on(reader.events.REQUEST, ({ payload }) => seen.set(payload.apiName, payload.apiVersion));
  t.closing.add(() => reader.disconnect());
  await reader.connect();
  await reader.subscribe({ topics: [t.topic], fromBeginning: true });
  await reader.run({ autoCommitThreshold: 1, eachMessage: async () => {} });
  const expected = {
    ApiVersions: 2,
    Metadata: 6,
    Produce: 7,
    Fetch: 11,
    GroupCoordinator: 2,
    JoinGroup: 5,
    SyncGroup: 3,
    OffsetFetch: 4,
    OffsetCommit: 5,
    Heartbeat: 3,
  };
  await until(
    () => Object.keys(expected).every((name) => seen.has(name)),
    () => `all of them: ${[...seen.keys()]}`,
  );
  for (const [name, version] of Object.entries(expected)) assert.equal(seen.get(name), version, name);
});
