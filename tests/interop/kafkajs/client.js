'use strict';
// kafkajs with its codecs, and the few calls that most tests begin with.

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs');
const { ZstdCodec } = require('zstd-codec');
const LZ4 = require('kafkajs-lz4');
const Snappy = require('kafkajs-snappy');
const { BROKERS, until } = require('../javascript/harness');

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1';
CompressionCodecs[CompressionTypes.Snappy] = Snappy;
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec;

// kafkajs brings no zstd; codecs are plain objects, so the users' way is to wrap a zstd package.
let zstd;
const zstdReady = new Promise((resolve) => ZstdCodec.run((codec) => resolve((zstd = new codec.Simple()))));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => (await zstdReady, Buffer.from(zstd.compress(encoder.buffer))),
  decompress: async (buffer) => (await zstdReady, Buffer.from(zstd.decompress(buffer))),
});

// What a test's clients have logged: some pitfalls show nowhere else.
const logged = [];
const logCreator =
  () =>
  ({ namespace, label, log }) => {
    logged.push(`${label} ${namespace} ${log.message} ${log.error || ''}`);
  };

function kafka(options = {}) {
  return new Kafka({
    clientId: 'kafkajs-suite',
    brokers: BROKERS,
    logLevel: logLevel.WARN,
    logCreator,
    retry: { initialRetryTime: 50, retries: 8 },
    ...options,
  });
}

async function connected(closing, client) {
  await client.connect();
  closing.add(() => client.disconnect());
  return client;
}

const producer = ({ closing }, options = {}, of = kafka()) => connected(closing, of.producer(options));
const admin = ({ closing }, of = kafka()) => connected(closing, of.admin());

const CONSUMER = { sessionTimeout: 6000, rebalanceTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 200 };
const consumer = ({ closing }, groupId, options = {}, of = kafka()) =>
  connected(closing, of.consumer({ groupId, ...CONSUMER, ...options }));

async function topic(t, { name = t.topic, partitions = 1, config = {} } = {}) {
  const one = await admin(t);
  const configEntries = Object.entries(config).map(([key, value]) => ({ name: key, value }));
  await one.createTopics({ waitForLeaders: true, topics: [{ topic: name, numPartitions: partitions, configEntries }] });
  return name;
}

// Reads a topic from the beginning in a group of its own until there are `count` records, or `enough` says so.
async function readAll(t, name, count, { options = {}, group = `${t.group}-read`, enough = null } = {}) {
  const reader = await consumer(t, group, options);
  const records = [];
  await reader.subscribe({ topics: [name], fromBeginning: true });
  await reader.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => void records.push({ partition, ...message }),
  });
  await until(
    () => (enough ? enough(records) : records.length >= count),
    () => `${count} records: ${records.length}`,
  );
  await reader.disconnect();
  return records;
}

// For assert.rejects: the broker's error, in whichever way kafkajs wraps it.
const holds = (error, type) =>
  Boolean(error) &&
  (error.type === type ||
    [error.cause, error.error, ...(error.errors || []), ...(error.groups || []), ...(error.partitions || [])].some(
      (one) => holds(one, type),
    ));
const failing = (type) => (error) => holds(error, type);

const values = (records) => records.map((record) => (record.value === null ? null : record.value.toString()));

module.exports = { admin, CompressionTypes, consumer, failing, kafka, logged, producer, readAll, topic, values };
