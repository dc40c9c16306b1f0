'use strict';
// confluent's client through its promises, and the few calls that most tests begin with.

const { AdminClient, KafkaJS } = require('@confluentinc/kafka-javascript');
const { BOOTSTRAP, BROKERS, until } = require('../javascript/harness');

const { ErrorCodes, Kafka, logLevel } = KafkaJS;

// What a test's clients have logged.
const logged = [];
const note = (label) => (message) => void logged.push(`${label} ${message}`);
const logger = {
  info: note('INFO'),
  warn: note('WARN'),
  error: note('ERROR'),
  debug: () => {},
  setLogLevel: () => {},
  namespace: () => logger,
};

function kafka(options = {}) {
  return new Kafka({
    kafkaJS: { clientId: 'javascript-suite', brokers: BROKERS, logLevel: logLevel.WARN, logger, ...options },
  });
}

async function connected(closing, client) {
  await client.connect();
  closing.add(() => client.disconnect());
  return client;
}

// The options of kafkajs stand in a block of their own, beside librdkafka's.
const producer = ({ closing }, options = {}, rest = {}) =>
  connected(closing, kafka().producer({ kafkaJS: options, 'linger.ms': 0, ...rest }));
const admin = ({ closing }) => connected(closing, kafka().admin());

const CONSUMER = {
  sessionTimeout: 6000,
  rebalanceTimeout: 6000,
  heartbeatInterval: 200,
  maxWaitTimeInMs: 100,
  fromBeginning: true,
  autoCommit: false,
};
const consumer = ({ closing }, groupId, options = {}, rest = {}) =>
  connected(closing, kafka().consumer({ kafkaJS: { groupId, ...CONSUMER, ...options }, ...rest }));

// The calls that only the older, callback-driven interface has.
async function callbackAdmin({ closing }, method, ...given) {
  const client = AdminClient.create({ 'bootstrap.servers': BOOTSTRAP });
  closing.add(() => client.disconnect());
  return new Promise((resolve, reject) => {
    client[method](...given, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

async function topic(t, { name = t.topic, partitions = 1, config = {} } = {}) {
  const one = await admin(t);
  const configEntries = Object.entries(config).map(([key, value]) => ({ name: key, value }));
  await one.createTopics({ topics: [{ topic: name, numPartitions: partitions, configEntries }] });
  return name;
}

async function readAll(t, name, count, { options = {}, group = `${t.group}-read`, rest = {} } = {}) {
  const reader = await consumer(t, group, options, rest);
  const records = [];
  await reader.subscribe({ topics: [name] });
  await reader.run({ eachMessage: async ({ partition, message }) => void records.push({ partition, ...message }) });
  await until(
    () => records.length >= count,
    () => `${count} records: ${records.length}`,
  );
  await reader.disconnect();
  return records;
}

const failing = (name) => (error) => {
  const codes = [
    error.code,
    error.cause?.code,
    ...(error.errors || []).map((one) => one.code),
    ...(error.groups || []).map((one) => one.errorCode),
    ...(error.partitions || []).map((one) => one.error?.code),
  ];
  return codes.includes(ErrorCodes[name]);
};

const values = (records) => records.map((record) => (record.value === null ? null : record.value.toString()));

module.exports = {
  admin,
  callbackAdmin,
  consumer,
  failing,
  kafka,
  logged,
  producer,
  readAll,
  topic,
  values,
};
