// Hidden acceptance tests: what is forgotten or overwritten while it is being loaded.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock, QueryCache } from '../src/index.js';

/** A load that ends when the test says so. */
function controlled() {
  const load = () => {
    load.calls += 1;
    return load.result;
  };
  load.calls = 0;
  load.result = new Promise((resolve, reject) => Object.assign(load, { resolve, reject }));
  return load;
}

/** Lets everything run that is waiting for nothing but its turn. */
const settle = () => new Promise(setImmediate);

const never = () => assert.fail('nothing should be loaded');

test('a load that began before an invalidation is not stored', async () => {
  const cache = new QueryCache();
  const old = controlled();
  const waiting = cache.get('k', old);
  await settle();
  cache.invalidate('k');
  old.resolve('old');
  await waiting;
  assert.equal(cache.peek('k'), undefined);
});

test('a get after an invalidation begins a load of its own', async () => {
  const cache = new QueryCache();
  const [old, recent] = [controlled(), controlled()];
  const before = cache.get('k', old);
  await settle();
  cache.invalidate('k');
  const after = cache.get('k', recent);
  recent.resolve('new');
  old.resolve('old');
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new']);
  assert.deepEqual([old.calls, recent.calls], [1, 1]);
  assert.equal(cache.peek('k'), 'new');
});

test('an old load that ends last does not replace the new value', async () => {
  const cache = new QueryCache();
  const [old, recent] = [controlled(), controlled()];
  const waiting = [cache.get('k', old)];
  cache.invalidate('k');
  waiting.push(cache.get('k', recent));
  recent.resolve('new');
  await settle();
  old.resolve('old');
  assert.deepEqual(await Promise.all(waiting), ['old', 'new']);
  assert.equal(await cache.get('k', never), 'new');
});

test('callers still share the new load after the old one has ended', async () => {
  const cache = new QueryCache();
  const [old, recent, third] = [controlled(), controlled(), controlled()];
  const before = cache.get('k', old);
  cache.invalidate('k');
  const after = cache.get('k', recent);
  old.resolve('old');
  await settle();
  const joined = cache.get('k', third);
  recent.resolve('new');
  third.resolve('third');
  assert.deepEqual(await Promise.all([before, after, joined]), ['old', 'new', 'new']);
  assert.equal(third.calls, 0);
});

test('an old load that fails does not disturb the new one', async () => {
  const cache = new QueryCache();
  const [old, recent, third] = [controlled(), controlled(), controlled()];
  const before = cache.get('k', old);
  cache.invalidate('k');
  const after = cache.get('k', recent);
  const outcomes = Promise.allSettled([before, after]);
  old.reject(new Error('too late'));
  await settle();
  const joined = cache.get('k', third);
  recent.resolve('new');
  third.resolve('third');
  const [failed, loaded] = await outcomes;
  assert.equal(failed.reason?.message, 'too late');
  assert.deepEqual([loaded.value, await joined], ['new', 'new']);
});

test('a value that is set while a load runs is kept', async () => {
  const cache = new QueryCache();
  const old = controlled();
  const before = cache.get('k', old);
  await settle();
  cache.set('k', 'written');
  old.resolve('old');
  assert.equal(await before, 'old');
  assert.equal(await cache.get('k', never), 'written');
});

test('clear reaches loads that are under way', async () => {
  const cache = new QueryCache();
  const [old, recent] = [controlled(), controlled()];
  const before = cache.get('k', old);
  await settle();
  cache.clear();
  const after = cache.get('k', recent);
  old.resolve('old');
  recent.resolve('new');
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new']);
  assert.equal(cache.peek('k'), 'new');
});

test('a tag reaches loads that are under way', async () => {
  const cache = new QueryCache();
  const [old, recent] = [controlled(), controlled()];
  const before = cache.get('k', old, { tags: ['users'] });
  await settle();
  cache.invalidateTag('users');
  const after = cache.get('k', recent, { tags: ['users'] });
  old.resolve('old');
  recent.resolve('new');
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new']);
});

test('a tag leaves other loads alone', async () => {
  const cache = new QueryCache();
  const load = controlled();
  const waiting = cache.get('k', load, { tags: ['groups'] });
  await settle();
  cache.invalidateTag('users');
  const joined = cache.get('k', never, { tags: ['groups'] });
  load.resolve('value');
  assert.deepEqual(await Promise.all([waiting, joined]), ['value', 'value']);
  assert.equal(cache.peek('k'), 'value');
});

test('the tags of a caller who joined a load count', async () => {
  const cache = new QueryCache();
  const [old, recent] = [controlled(), controlled()];
  const first = cache.get('k', old, { tags: ['a'] });
  const second = cache.get('k', never, { tags: ['b'] });
  await settle();
  cache.invalidateTag('b');
  const after = cache.get('k', recent);
  old.resolve('old');
  recent.resolve('new');
  assert.deepEqual(await Promise.all([first, second, after]), ['old', 'old', 'new']);
});

test('what a shared load stores carries the tags of all its callers', async () => {
  const cache = new QueryCache();
  const load = controlled();
  const waiting = [cache.get('k', load, { tags: ['a'] }), cache.get('k', never, { tags: ['b'] })];
  load.resolve('value');
  await Promise.all(waiting);
  assert.equal(cache.invalidateTag('b'), 1);
  assert.equal(cache.peek('k'), undefined);
});

test('a background refresh does not bring back an invalidated entry', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, staleFor: 100, clock });
  cache.set('k', 'stored', { tags: ['users'] });
  clock.advance(150);
  const refresh = controlled();
  assert.equal(await cache.get('k', refresh), 'stored');
  cache.invalidateTag('users');
  refresh.resolve('old');
  await settle();
  assert.equal(cache.peek('k'), undefined);
});

test('a background refresh does not replace a value that was set meanwhile', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, staleFor: 100, clock });
  cache.set('k', 'stored');
  clock.advance(150);
  const refresh = controlled();
  await cache.get('k', refresh);
  cache.set('k', 'written');
  refresh.resolve('old');
  await settle();
  assert.equal(cache.peek('k'), 'written');
});

test('a wrapped function reads again after an invalidation', async () => {
  const cache = new QueryCache();
  const answers = [controlled(), controlled()];
  let asked = 0;
  const read = cache.wrap(() => answers[asked++](), { key: (id) => `user:${id}` });
  const before = read(7);
  await settle();
  cache.invalidate('user:7');
  const after = read(7);
  answers[1].resolve('new');
  answers[0].resolve('old');
  assert.deepEqual(await Promise.all([before, after]), ['old', 'new']);
});

test('callers who asked before an invalidation get what their load gives', async () => {
  const cache = new QueryCache();
  const old = controlled();
  const waiting = [cache.get('k', old), cache.get('k', never)];
  await settle();
  cache.invalidate('k');
  old.resolve('old');
  assert.deepEqual(await Promise.all(waiting), ['old', 'old']);
  assert.equal(old.calls, 1);
});

test('invalidate tells whether a value was stored, not whether one was loading', async () => {
  const cache = new QueryCache();
  const load = controlled();
  const waiting = cache.get('k', load, { tags: ['t'] });
  await settle();
  assert.equal(cache.invalidate('k'), false);
  assert.equal(cache.invalidateTag('t'), 0);
  load.resolve('value');
  await waiting;
});

test('eviction does not stop a refresh', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ maxEntries: 1, ttl: 100, staleFor: 100, clock });
  cache.set('k', 'stored');
  clock.advance(150);
  const refresh = controlled();
  await cache.get('k', refresh);
  cache.set('other', 1);
  refresh.resolve('refreshed');
  await settle();
  assert.equal(cache.peek('k'), 'refreshed');
});

test('the time to live counts from the end of the load', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, clock });
  const load = controlled();
  const waiting = cache.get('k', load);
  await settle();
  clock.advance(80);
  load.resolve('value');
  await waiting;
  clock.advance(99);
  assert.equal(await cache.get('k', never), 'value');
});
