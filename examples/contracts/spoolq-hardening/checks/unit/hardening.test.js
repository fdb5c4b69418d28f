// Hidden acceptance tests: hostile names, crashes in the middle of a write, damaged files, jobs that hang or fail.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { CorruptJobError, Spool, Worker } from '../src/index.js';

/** Every expectation goes through here. */
function same(actual, expected) {
  assert.deepEqual(actual, expected);
}

/** A new directory, gone at the end of the test. */
async function scratch(t) {
  const directory = await mkdtemp(join(tmpdir(), 'spoolq-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** What a promise gives, or the name of the error that it ends with. */
const outcome = (promise) => promise.catch((error) => `failed: ${error.name}`);

const LIBRARY = fileURLToPath(new URL('../src/index.js', import.meta.url));

/** Runs a script of its own whose files cannot grow beyond 16 KB: a disk that is full in the middle of a write. */
function withFullDisk(directory, body) {
  const script = `import { Spool } from ${JSON.stringify(LIBRARY)};
    const spool = await Spool.open(${JSON.stringify(directory)}); ${body}`;
  return spawnSync('bash', ['-c', 'ulimit -f 16; exec node --input-type=module -e "$0"', script], { encoding: 'utf8' });
}

const HOSTILE = ['../escape', 'a/b', '..', '.', '', '.hidden', 'a\0b', 'a\\b', 'x'.repeat(101), 'ä', 'a b', 'a\n', 7, null];

/** How a spool answers to each of them. */
async function tryHostile(t, call) {
  const spool = await Spool.open(join(await scratch(t), 'spool'));
  const outcomes = [];
  for (const name of HOSTILE) {
    outcomes.push(await outcome(call(spool, name)));
  }
  return outcomes;
}

test('put refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.put(name, 1)), HOSTILE.map(() => 'failed: RangeError'));
});

test('get refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.get(name)), HOSTILE.map(() => 'failed: RangeError'));
});

test('getDead refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.getDead(name)), HOSTILE.map(() => 'failed: RangeError'));
});

test('remove refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.remove(name)), HOSTILE.map(() => 'failed: RangeError'));
});

test('bury refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.bury(name, 'why')), HOSTILE.map(() => 'failed: RangeError'));
});

test('revive refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.revive(name)), HOSTILE.map(() => 'failed: RangeError'));
});

test('countAttempt refuses names that are not plain', async (t) => {
  same(await tryHostile(t, (spool, name) => spool.countAttempt(name)), HOSTILE.map(() => 'failed: RangeError'));
});

test('nothing outside the spool is written', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(join(directory, 'spool'));
  await outcome(spool.put('../../escape', 1));
  same(await readdir(directory), ['spool']);
});

test('nothing outside the spool is removed', async (t) => {
  const directory = await scratch(t);
  await writeFile(join(directory, 'precious.json'), '{}');
  const spool = await Spool.open(join(directory, 'spool'));
  await outcome(spool.remove('../../precious'));
  same(await readdir(directory), ['precious.json', 'spool']);
});

test('a name of a hundred characters is plain', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('x'.repeat(100), 1);
  same((await spool.get('x'.repeat(100))).data, 1);
});

test('a write that breaks off leaves the job before it', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await spool.put('a', 'before');
  withFullDisk(directory, `await spool.put('a', 'x'.repeat(100_000));`);
  same((await outcome(spool.get('a'))).data, 'before');
});

test('a write that breaks off adds no job', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  withFullDisk(directory, `await spool.put('a', 'x'.repeat(100_000));`);
  same(await spool.names(), []);
});

test('what a broken write leaves is gone after the spool is opened', async (t) => {
  const directory = await scratch(t);
  await Spool.open(directory);
  withFullDisk(directory, `await spool.put('a', 'x'.repeat(100_000));`);
  await Spool.open(directory);
  same(await readdir(join(directory, 'jobs')), []);
});

test('a finished write leaves its file alone', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await Promise.all([spool.put('a', 1), spool.put('a', 2), spool.put('b', 3)]);
  same(await readdir(join(directory, 'jobs')), ['a.json', 'b.json']);
});

test('data that is not JSON is refused and changes nothing', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 1);
  same(await outcome(spool.put('a', undefined)), 'failed: TypeError');
  same((await spool.get('a')).data, 1);
});

/** How a file with this text is refused. */
async function tryToRead(t, text) {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await writeFile(join(directory, 'jobs', 'bad.json'), text);
  const error = await spool.get('bad').catch((reason) => reason);
  return [error instanceof CorruptJobError, error?.job];
}

test('half a job is a corrupt job', async (t) => {
  same(await tryToRead(t, '{"data": {"to'), [true, 'bad']);
});

test('an empty file is a corrupt job', async (t) => {
  same(await tryToRead(t, ''), [true, 'bad']);
});

test('a number is a corrupt job', async (t) => {
  same(await tryToRead(t, '7'), [true, 'bad']);
});

test('a null is a corrupt job', async (t) => {
  same(await tryToRead(t, 'null'), [true, 'bad']);
});

test('a job without data is a corrupt job', async (t) => {
  same(await tryToRead(t, '{"attempts": 1}'), [true, 'bad']);
});

test('impossible attempts is a corrupt job', async (t) => {
  same(await tryToRead(t, '{"data": 1, "attempts": "many"}'), [true, 'bad']);
});

test('a corrupt job does not stop the others', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await spool.put('z', 1);
  await writeFile(join(directory, 'jobs', 'bad.json'), '{"data": ');
  const report = await outcome(new Worker(spool, async () => {}).drain());
  same(report, { done: ['z'], failed: [], dead: ['bad'] });
});

test('a corrupt job is kept as it was among the dead', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await writeFile(join(directory, 'jobs', 'bad.json'), '{"data": ');
  await outcome(new Worker(spool, async () => {}).drain());
  same([await spool.names(), await spool.deadNames()], [[], ['bad']]);
  same(await readFile(join(directory, 'dead', 'bad.json'), 'utf8'), '{"data": ');
});

test('files with foreign names are not jobs', async (t) => {
  const directory = await scratch(t);
  const spool = await Spool.open(directory);
  await spool.put('a', 1);
  await writeFile(join(directory, 'jobs', '.a.json'), '{"data": 1}');
  await writeFile(join(directory, 'jobs', 'a b.json'), '{"data": 1}');
  same((await outcome(new Worker(spool, async () => {}).drain())).done, ['a']);
});

/** Workers whose handlers hang, all at once: what they report, or that they hang as well. */
let hung;
function hanging() {
  hung ??= watchHanging();
  return hung;
}

async function watchHanging() {
  const directory = await mkdtemp(join(tmpdir(), 'spoolq-'));
  const facts = { told: false };
  const last = await Spool.open(join(directory, 'last'));
  const drain = async (name, handler, options) => {
    const spool = await Spool.open(join(directory, name));
    await spool.put('a', 1);
    await spool.put('b', 2);
    facts[name] = await new Worker(spool, handler, { timeoutMs: 50, ...options }).drain();
  };
  const drains = Promise.all([
    drain('one', (job) => (job === 1 ? new Promise(() => {}) : job)),
    drain('all', (job, { signal }) => new Promise(() => signal.addEventListener('abort', () => { facts.told = true; }))),
    drain('last', () => new Promise(() => {}), { maxAttempts: 1 }),
  ]);
  let timer;
  // Far more than a worker needs, and only waited for where one hangs.
  await Promise.race([drains, new Promise((resolve) => { timer = setTimeout(resolve, 10_000); })]);
  clearTimeout(timer);
  facts.reason = (await last.getDead('a'))?.reason;
  await rm(directory, { recursive: true, force: true });
  return facts;
}

test('a handler that hangs is a failed attempt', async () => {
  same((await hanging()).one, { done: ['b'], failed: ['a'], dead: [] });
});

test('a handler that hangs is told by its signal', async () => {
  same((await hanging()).told, true);
});

test('the reason of a job that hung is a timeout', async () => {
  same((await hanging()).reason, 'timed out after 50 ms');
});

test('a handler that ends in time is not told anything', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 1);
  let signal;
  await new Worker(spool, async (job, options) => { signal = options.signal; }, { timeoutMs: 60_000 }).drain();
  same(signal.aborted, false);
});

test('a job is given up after its last attempt', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 1);
  const worker = new Worker(spool, async () => { throw new Error('no route'); }, { maxAttempts: 2 });
  same(await worker.drain(), { done: [], failed: ['a'], dead: [] });
  same(await worker.drain(), { done: [], failed: [], dead: ['a'] });
  same(await spool.getDead('a'), { data: 1, attempts: 2, reason: 'no route' });
  same(await worker.drain(), { done: [], failed: [], dead: [] });
});

test('a job that was replaced while it was handled waits on', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 'old');
  const worker = new Worker(spool, async () => spool.put('a', 'new'));
  same((await worker.drain()).done, ['a']);
  same((await spool.get('a'))?.data, 'new');
});
