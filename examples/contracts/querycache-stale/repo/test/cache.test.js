import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock, QueryCache } from '../src/index.js';

function counter() {
  let calls = 0;
  return Object.assign(async () => `value ${(calls += 1)}`, { calls: () => calls });
}

test('a value is loaded once and then cached', async () => {
  const cache = new QueryCache();
  const load = counter();
  assert.equal(await cache.get('k', load), 'value 1');
  assert.equal(await cache.get('k', load), 'value 1');
  assert.equal(load.calls(), 1);
});

test('an expired value is loaded again', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, clock });
  const load = counter();
  await cache.get('k', load);
  clock.advance(99);
  assert.equal(await cache.get('k', load), 'value 1');
  clock.advance(1);
  assert.equal(await cache.get('k', load), 'value 2');
});

test('a ttl of its own overrides the one of the cache', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, clock });
  const load = counter();
  await cache.get('k', load, { ttl: 10 });
  clock.advance(10);
  assert.equal(await cache.get('k', load), 'value 2');
});

test('callers at the same time share one load', async () => {
  const cache = new QueryCache();
  const load = counter();
  const values = await Promise.all([cache.get('k', load), cache.get('k', load), cache.get('k', load)]);
  assert.deepEqual(values, ['value 1', 'value 1', 'value 1']);
  assert.equal(load.calls(), 1);
});

test('a failed load is not cached and fails for everyone who waits', async () => {
  const cache = new QueryCache();
  const fail = async () => {
    throw new Error('no connection');
  };
  const waiting = [cache.get('k', fail), cache.get('k', fail)];
  for (const result of await Promise.allSettled(waiting)) {
    assert.equal(result.reason.message, 'no connection');
  }
  assert.equal(await cache.get('k', counter()), 'value 1');
});

test('a load that throws at once is a failed load', async () => {
  const cache = new QueryCache();
  const load = () => {
    throw new Error('bad query');
  };
  await assert.rejects(cache.get('k', load), /bad query/);
});

test('a stale value is answered at once and refreshed in the background', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 100, staleFor: 50, clock });
  const load = counter();
  await cache.get('k', load);
  clock.advance(120);
  assert.equal(await cache.get('k', load), 'value 1');
  await new Promise(setImmediate);
  assert.equal(cache.peek('k'), 'value 2');
});

test('a failed refresh is reported and keeps the stale value', async () => {
  const clock = new ManualClock();
  const reported = [];
  const onError = (error, key) => reported.push([error.message, key]);
  const cache = new QueryCache({ ttl: 100, staleFor: 50, clock, onError });
  await cache.get('k', counter());
  clock.advance(120);
  const fail = async () => {
    throw new Error('down');
  };
  assert.equal(await cache.get('k', fail), 'value 1');
  await new Promise(setImmediate);
  assert.deepEqual(reported, [['down', 'k']]);
  assert.equal(cache.peek('k'), 'value 1');
});

test('an invalidated key is loaded again', async () => {
  const cache = new QueryCache();
  const load = counter();
  await cache.get('k', load);
  assert.equal(cache.invalidate('k'), true);
  assert.equal(cache.invalidate('k'), false);
  assert.equal(await cache.get('k', load), 'value 2');
});

test('a tag forgets its keys and no others', async () => {
  const cache = new QueryCache();
  cache.set('a', 1, { tags: ['users', 'admins'] });
  cache.set('b', 2, { tags: ['users'] });
  cache.set('c', 3, { tags: ['groups'] });
  assert.equal(cache.invalidateTag('users'), 2);
  assert.equal(cache.invalidateTag('admins'), 0);
  assert.deepEqual([cache.peek('a'), cache.peek('b'), cache.peek('c')], [undefined, undefined, 3]);
});

test('clear forgets everything', async () => {
  const cache = new QueryCache();
  cache.set('a', 1, { tags: ['t'] });
  cache.clear();
  assert.equal(cache.size, 0);
  assert.equal(cache.invalidateTag('t'), 0);
});

test('the least recently used entry is evicted', async () => {
  const cache = new QueryCache({ maxEntries: 2 });
  const load = counter();
  cache.set('a', 1);
  cache.set('b', 2);
  await cache.get('a', load);
  cache.set('c', 3);
  assert.deepEqual([cache.peek('a'), cache.peek('b'), cache.peek('c')], [1, undefined, 3]);
  assert.equal(cache.stats().evictions, 1);
});

test('a wrapped function is cached by its key', async () => {
  const cache = new QueryCache();
  const asked = [];
  const read = async (id) => {
    asked.push(id);
    return { id };
  };
  const cached = cache.wrap(read, { key: (id) => `user:${id}`, tags: (id) => [`u${id}`] });
  assert.deepEqual(await cached(1), { id: 1 });
  await cached(1);
  await cached(2);
  assert.deepEqual(asked, [1, 2]);
  assert.equal(cache.invalidateTag('u1'), 1);
});

test('stats count what happened', async () => {
  const clock = new ManualClock();
  const cache = new QueryCache({ ttl: 10, staleFor: 10, clock });
  const load = counter();
  await cache.get('k', load);
  await cache.get('k', load);
  clock.advance(15);
  await cache.get('k', load);
  assert.deepEqual(cache.stats(), { hits: 1, staleHits: 1, misses: 1, evictions: 0, size: 1 });
});

test('durations must not be negative', () => {
  assert.throws(() => new QueryCache({ ttl: -1 }), /ttl must be/);
  assert.throws(() => new QueryCache({ staleFor: Number.NaN }), /staleFor must be/);
});
