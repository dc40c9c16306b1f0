'use strict';
// A member of a group in a process of its own. It leaves when its input ends.

const { KafkaJS } = require('@confluentinc/kafka-javascript');

const options = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const ASSIGNED = KafkaJS.ErrorCodes.ERR__ASSIGN_PARTITIONS;

async function main() {
  const kafka = new KafkaJS.Kafka({
    kafkaJS: { clientId: options.name, brokers: options.bootstrap.split(','), logLevel: KafkaJS.logLevel.ERROR },
  });
  const owned = new Set();
  // In groups of the consumer protocol (KIP-848) the broker decides about these.
  const classic = {
    sessionTimeout: options.session || 6000,
    heartbeatInterval: 200,
    partitionAssigners: [KafkaJS.PartitionAssigners[options.assignor || 'roundRobin']],
  };
  const modern = options.protocol === 'consumer';
  const consumer = kafka.consumer({
    kafkaJS: {
      groupId: options.group,
      rebalanceTimeout: Math.max(options.session || 0, 6000), // librdkafka wants no less than the session
      maxWaitTimeInMs: 100,
      fromBeginning: true,
      autoCommit: true,
      autoCommitInterval: 100,
      ...(modern ? {} : classic),
    },
    ...(modern ? { 'group.protocol': 'consumer' } : {}),
    ...(options.instance ? { 'group.instance.id': options.instance } : {}),
    rebalance_cb: async (error, partitions) => {
      const change = error.code === ASSIGNED ? 'assign' : 'revoke';
      for (const { partition } of partitions) change === 'assign' ? owned.add(partition) : owned.delete(partition);
      say({ assigned: [...owned].sort(), change, partitions: partitions.map(({ partition }) => partition).sort() });
    },
  });
  process.stdin.on('end', async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  process.stdin.resume();
  await consumer.connect();
  await consumer.subscribe({ topics: [options.pattern ? new RegExp(options.pattern) : options.topic] });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      say({ record: { partition, offset: message.offset, value: message.value.toString() } });
    },
  });
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
