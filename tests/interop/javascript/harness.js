'use strict';
// What the JavaScript suites share: a list of tests that is run in order, each reported as a line of JSON.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const readline = require('node:readline');

const BOOTSTRAP = process.env.BOOTSTRAP;
const BROKERS = BOOTSTRAP.split(',');
const RUN = Date.now().toString(36); // names are new in each run, for brokers that outlive it
const tests = [];

class Skipped extends Error {}

function test(name, body, { seconds = 60 } = {}) {
  tests.push({ name, body, seconds });
}

function skip(reason) {
  throw new Skipped(reason);
}

function report(test, outcome, began, reason = '') {
  const seconds = (Date.now() - began) / 1000;
  process.stdout.write(`${JSON.stringify({ test, outcome, reason: reason.slice(0, 3000), seconds })}\n`);
}

// Closes what a test has opened, in reverse, also where it failed.
class Closing {
  constructor() {
    this.open = [];
  }

  add(close) {
    this.open.push(close);
  }

  async close() {
    for (const one of this.open.reverse()) {
      await Promise.race([
        Promise.resolve()
          .then(one)
          .catch(() => {}),
        pause(15000),
      ]);
    }
  }
}

async function runAll() {
  const wanted = process.argv.slice(2);
  for (const { name, body, seconds } of tests) {
    if (wanted.length && !wanted.includes(name)) continue;
    const began = Date.now();
    const closing = new Closing();
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000);
    });
    try {
      await Promise.race([body({ name, closing, topic: `${name}-${RUN}`, group: `group-${name}-${RUN}` }), late]);
      report(name, 'passed', began);
    } catch (error) {
      if (error instanceof Skipped) report(name, 'skipped', began, error.message);
      else report(name, 'failed', began, String(error.stack || error) + (error.cause ? `\n${error.cause.stack}` : ''));
    } finally {
      clearTimeout(timer);
      await closing.close();
    }
  }
  // Timers of a client that failed must not keep the program.
  process.exit(0);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until the condition gives something that is true, and gives it.
async function until(condition, what, seconds = 30) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`not in ${seconds} s: ${typeof what === 'function' ? what() : what}`);
    await pause(25);
  }
}

// A member of a group in a process of its own, which can be killed.
// It prints a line of JSON for each thing that happens.
class Member {
  constructor(script, options) {
    this.assignments = [];
    this.records = [];
    this.errors = '';
    this.process = spawn(process.execPath, [script, JSON.stringify({ bootstrap: BOOTSTRAP, ...options })], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.stderr.on('data', (data) => (this.errors = (this.errors + data).slice(-3000)));
    readline.createInterface({ input: this.process.stdout }).on('line', (line) => {
      if (!line.startsWith('{')) return;
      const event = JSON.parse(line);
      if (event.assigned) this.assignments.push(event);
      else if (event.record) this.records.push(event.record);
    });
  }

  get partitions() {
    return this.assignments.length ? this.assignments.at(-1).assigned : null;
  }

  get memberId() {
    return this.assignments.length ? this.assignments.at(-1).member : null;
  }

  owns(count) {
    return until(
      () => this.partitions && this.partitions.length === count,
      () => `${count} partitions; it has ${JSON.stringify(this.partitions)} ${this.errors}`,
    );
  }

  kill() {
    this.process.kill('SIGKILL');
    return this.ended;
  }

  // Asks it to leave, and waits until it has.
  leave() {
    this.process.stdin.end();
    return this.ended;
  }
}

// Skips the test where the broker is not ours to restart.
function needsRestarts() {
  if (!process.env.RESTARTS) skip('the broker was given from outside and is not restarted');
}

// Has the broker killed and started again on its data.
let restarts = 0;
async function restartBroker() {
  const directory = process.env.RESTARTS;
  restarts += 1;
  fs.writeFileSync(path.join(directory, `wanted-${restarts}`), '');
  const done = path.join(directory, `done-${restarts}`);
  await until(() => fs.existsSync(done), 'the broker is there again', 30);
  assert.equal(fs.readFileSync(done, 'utf8'), '');
}

// The codec in the attributes of a partition's first batch as the broker gives it out: Fetch version 4 by hand.
const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
async function storedCodec(topic, partition = 0) {
  const name = Buffer.from(topic);
  const request = Buffer.alloc(14 + 17 + 4 + 2 + name.length + 4 + 16);
  let at = request.writeInt32BE(request.length - 4, 0);
  at = request.writeInt16BE(1, at); // Fetch
  at = request.writeInt16BE(4, at);
  at = request.writeInt32BE(7, at); // correlation id
  at = request.writeInt16BE(-1, at); // no client id
  at = request.writeInt32BE(-1, at);
  at = request.writeInt32BE(2000, at);
  at = request.writeInt32BE(1, at);
  at = request.writeInt32BE(1 << 20, at);
  at = request.writeInt8(0, at);
  at = request.writeInt32BE(1, at);
  at = request.writeInt16BE(name.length, at);
  at += name.copy(request, at);
  at = request.writeInt32BE(1, at);
  at = request.writeInt32BE(partition, at);
  at = request.writeBigInt64BE(0n, at);
  request.writeInt32BE(1 << 20, at);
  const records = 4 + 4 + 4 + 4 + 2 + name.length + 4 + 4 + 2 + 8 + 8 + 4 + 4;
  const answers = await Promise.all(BROKERS.map((broker) => exchange(broker, request)));
  const answer = answers.find((one) => one.readInt16BE(records - 26) === 0); // of the leader
  assert.ok(answer, 'the error code of the fetch');
  return CODECS[answer.readInt16BE(records + 21) & 7];
}

function exchange(broker, request) {
  const [host, port] = broker.split(':');
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port }, () => socket.write(request));
    let got = Buffer.alloc(0);
    socket.on('data', (data) => {
      got = Buffer.concat([got, data]);
      if (got.length >= 4 && got.length >= 4 + got.readInt32BE(0)) {
        socket.destroy();
        resolve(got);
      }
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the connection was closed')));
  });
}

const numbers = (count, from = 0) => Array.from({ length: count }, (_, at) => at + from);
const sorted = (values) => [...values].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));

module.exports = {
  assert,
  BOOTSTRAP,
  BROKERS,
  RUN,
  Member,
  needsRestarts,
  numbers,
  pause,
  restartBroker,
  runAll,
  skip,
  sorted,
  storedCodec,
  test,
  until,
};
