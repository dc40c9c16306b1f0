'use strict';
// A member of a consumer group in kafkajs, told what to do by lines on standard input.

const readline = require('node:readline');
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs');

const role = JSON.parse(process.argv.at(-1));
const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const kafka = new Kafka({ clientId: role.name, brokers: role.bootstrap.split(','), logLevel: logLevel.NOTHING });

// What kafkajs calls RoundRobinAssigner is what others call roundrobin, or for one topic may as well be called range:
// whoever leads decides, and the others take what they are given.
const named = (options) => ({ ...PartitionAssigners.roundRobin(options), name: role.assignor });

const consumer = kafka.consumer({
  groupId: role.group, sessionTimeout: role.session_timeout_ms, rebalanceTimeout: 10000, heartbeatInterval: 200,
  maxWaitTimeInMs: 200, partitionAssigners: [named],
});
let owned = [];

function moved(kind, places) {
  tell({ what: 'changed', kind, places });
}

function gone(kind) {
  if (owned.length) moved(kind, owned);
  owned = [];
}

consumer.on(consumer.events.REBALANCING, () => gone('revoked'));
consumer.on(consumer.events.CRASH, ({ payload }) => {
  gone('lost');
  if (!payload.restart) tell({ what: 'trouble', text: String(payload.error) });
});
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  gone('revoked');
  owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) => numbers.map((one) => [topic, one]));
  moved('assigned', owned);
});

async function start() {
  await consumer.connect();
  await consumer.subscribe({ topics: role.topics, fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ topic, partition, message }) => {
      tell({ what: 'saw', seen: [topic, partition, Number(message.offset), message.value.toString(), 0] });
    },
  });
}

async function stop() {
  await consumer.disconnect();
  process.exit(0);
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const done = line === 'start' ? start() : line === 'stop' ? stop() : Promise.resolve();
  done.catch((error) => {
    tell({ what: 'trouble', text: String(error) });
    process.exit(1);
  });
});
tell({ what: 'ready' });
