'use strict';
// A broker that asks who comes: by SASL over TLS, and by certificate. SECURED_... in the environment says how.

const fs = require('node:fs');
const { assert, numbers, pause, skip, test, until } = require('../javascript/harness');
const { consumer, kafka, producer } = require('./client');

const REFUSED_WITHIN_MS = 15000;

function told(name) {
  const value = process.env[`SECURED_${name}`];
  if (!value) skip('there is no secured broker');
  return value;
}

const password = (mechanism) => (right) => ({
  sasl: { mechanism, username: told('USER'), password: right ? told('PASSWORD') : 'wrong' },
});
const token = (right) => ({
  sasl: {
    mechanism: 'oauthbearer',
    oauthBearerProvider: async () => ({ value: told(right ? 'TOKEN' : 'WRONG_TOKEN') }),
  },
});
const certificate = (right) => ({
  ssl: right ? { cert: fs.readFileSync(told('CERT')), key: fs.readFileSync(told('KEY')) } : {},
});

// Kafka for a listener; its own error and no other attempt where it is refused.
const at = (listener, { sasl, ssl = {} }, more = {}) =>
  kafka({ brokers: [told(listener)], sasl, ssl: { ca: [fs.readFileSync(told('CA'))], ...ssl }, ...more });

async function reader(t, of) {
  const one = await consumer(t, t.group, {}, of);
  const seen = [];
  await one.subscribe({ topics: [t.topic], fromBeginning: true });
  await one.run({ eachMessage: async ({ message }) => void seen.push(message.value.toString()) });
  return { one, seen };
}

const WAYS = {
  scram: ['SAFE', password('scram-sha-512')],
  plain: ['SAFE', password('plain')],
  oauthbearer: ['SAFE', token],
  mutual_tls: ['MUTUAL', certificate],
};

// Writes, reads in a group that commits, has another member go on from there; and is refused.
for (const [name, [listener, options]] of Object.entries(WAYS)) {
  test(`secured_${name}`, async (t) => {
    for (const round of [0, 1]) {
      const right = at(listener, options(true));
      const values = numbers(20).map((n) => `${round} ${n}`);
      const writer = await producer(t, {}, right);
      await writer.send({ topic: t.topic, messages: values.map((value) => ({ value })) });
      const { one, seen } = await reader(t, right);
      await until(
        () => seen.length >= values.length,
        () => `${values.length} records: ${seen.length}`,
      );
      await one.disconnect(); // which commits
      assert.deepEqual(seen, values);
    }
    const began = Date.now();
    const refused = at(listener, options(false), { retry: { retries: 0 } }).producer();
    t.closing.add(() => refused.disconnect());
    // It takes the broker's word on a wrong token for a good one, and hears of it at its next request.
    const expected = { mutual_tls: /certificate required|Closed connection/, oauthbearer: /Closed connection/ }[name];
    await assert.rejects(
      async () => {
        await refused.connect();
        await refused.send({ topic: t.topic, messages: [{ value: 'never' }] });
      },
      (error) => (expected || /SASLAuthenticationError/).test(`${error.name} ${error.message}`),
    );
    assert.ok(Date.now() - began < REFUSED_WITHIN_MS);
  });
}

// Reads for some lifetimes of a session; nothing is lost or comes twice.
test('secured_reauthentication', async (t) => {
  // It renews a session so long before its end; 10 s by default.
  const of = at('BRIEF', password('scram-sha-512')(true), { reauthenticationThreshold: 500 });
  const writer = await producer(t, {}, of);
  const send = (value) => writer.send({ topic: t.topic, messages: [{ value }] });
  await send('0');
  const { one, seen } = await reader(t, of);
  const end = Date.now() + Number(told('READING_MS'));
  let sent = 1;
  for (; Date.now() < end; sent += 1) {
    await send(String(sent));
    await pause(20);
  }
  await until(
    () => seen.length >= sent,
    () => `${sent} records: ${seen.length}`,
  );
  await one.disconnect();
  assert.deepEqual(seen, numbers(sent).map(String));
});
