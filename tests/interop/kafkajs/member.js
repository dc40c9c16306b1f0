'use strict';
// A member of a group in a process of its own. It leaves when its input ends.

const { Kafka, logLevel } = require('kafkajs');

const options = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);

async function main() {
  const kafka = new Kafka({ clientId: options.name, brokers: options.bootstrap.split(','), logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({
    groupId: options.group,
    sessionTimeout: options.session || 6000,
    rebalanceTimeout: 6000,
    heartbeatInterval: 200,
    maxWaitTimeInMs: 200,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    say({ assigned: payload.memberAssignment[options.topic] || [], member: payload.memberId });
  });
  process.stdin.on('end', async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  process.stdin.resume();
  await consumer.connect();
  await consumer.subscribe({ topics: [options.topic], fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => {
      say({ record: { partition, offset: message.offset, value: message.value.toString() } });
    },
  });
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
