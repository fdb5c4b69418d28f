// Copies of the tests with wrong expectations: on a correct solution each of them must fail.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Spool, Worker } from '../src/index.js';

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

test('jobs are listed in alphabetical order', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('b', 1);
  await spool.put('a', 2);
  same(await spool.names(), ['b', 'a']);
});

test('a job keeps its data', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a.b-c_1', { to: ['ada'], size: 2.5 });
  same(await spool.get('a.b-c_1'), { data: { to: ['ada'], size: 2.5 }, attempts: 1, reason: undefined });
});

test('a job that is not there is undefined', async (t) => {
  const spool = await Spool.open(await scratch(t));
  same([await spool.get('a'), await spool.remove('a'), await spool.bury('a', 'x')], [undefined, true, false]);
});

test('a job is a readable file', async (t) => {
  const directory = await scratch(t);
  await (await Spool.open(directory)).put('a', 'text');
  same(JSON.parse(await readFile(join(directory, 'jobs', 'a.json'), 'utf8')), { data: 'text', attempts: 0, reason: null });
});

test('a spool that is opened again has its jobs', async (t) => {
  const directory = await scratch(t);
  await (await Spool.open(directory)).put('a', 1);
  same(await (await Spool.open(directory)).names(), []);
});

test('a job can be given up and revived', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 1);
  await spool.countAttempt('a');
  same(await spool.bury('a', 'no hope'), false);
  same(await spool.getDead('a'), { data: 1, attempts: 0, reason: 'no hope' });
  same([await spool.names(), await spool.deadNames()], [['a'], []]);
  same(await spool.revive('a'), false);
  same((await spool.get('a')).attempts, 1);
});

test('a worker removes what is done', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('b', 2);
  await spool.put('a', 1);
  const seen = [];
  const worker = new Worker(spool, async (job, { name, attempt }) => seen.push([job, name, attempt]));
  same(await worker.drain(), { done: ['b', 'a'], failed: [], dead: [] });
  same(seen, [[2, 'b', 1], [1, 'a', 1]]);
  same(await spool.names(), ['a']);
});

test('a job that fails waits on', async (t) => {
  const spool = await Spool.open(await scratch(t));
  await spool.put('a', 1);
  const worker = new Worker(spool, () => { throw new Error('busy'); });
  same(await worker.drain(), { done: [], failed: [], dead: ['a'] });
  same((await spool.get('a')).attempts, 2);
});

test('options must be positive integers', async (t) => {
  const spool = await Spool.open(await scratch(t));
  const make = async () => new Worker(spool, () => {}, { maxAttempts: 0 });
  same(await outcome(make()), 'failed: TypeError');
});
