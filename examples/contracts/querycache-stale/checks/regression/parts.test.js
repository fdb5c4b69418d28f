import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock, queryKey } from '../src/index.js';
import { LruMap } from '../src/lru.js';
import { TagIndex } from '../src/tags.js';

test('the key does not depend on the order of properties', () => {
  assert.equal(queryKey('q', { a: 1, b: { d: 2, c: [3] } }), queryKey('q', { b: { c: [3], d: 2 }, a: 1 }));
});

test('different parameters have different keys', () => {
  assert.notEqual(queryKey('q', { a: [1, 2] }), queryKey('q', { a: [2, 1] }));
  assert.notEqual(queryKey('q', { a: '1' }), queryKey('q', { a: 1 }));
  assert.notEqual(queryKey('q'), queryKey('r'));
});

test('reading moves an entry to the end of the line', () => {
  const evicted = [];
  const map = new LruMap(2, (key) => evicted.push(key));
  map.set('a', 1);
  map.set('b', 2);
  map.get('a');
  map.peek('b');
  map.set('c', 3);
  assert.deepEqual(evicted, ['b']);
});

test('writing a key again evicts nothing', () => {
  const evicted = [];
  const map = new LruMap(1, (key) => evicted.push(key));
  map.set('a', 1);
  map.set('a', 2);
  assert.deepEqual([map.peek('a'), evicted], [2, []]);
});

test('a map needs room for one entry', () => {
  assert.throws(() => new LruMap(0), /positive integer/);
});

test('assigning tags replaces the old ones', () => {
  const index = new TagIndex();
  index.assign('k', ['a', 'b']);
  index.assign('k', ['b', 'c']);
  assert.deepEqual([index.keysOf('a'), index.keysOf('b'), index.keysOf('c')], [[], ['k'], ['k']]);
  index.remove('k');
  assert.deepEqual(index.keysOf('b'), []);
});

test('a manual clock moves forward only', () => {
  const clock = new ManualClock(5);
  clock.advance(3);
  assert.equal(clock.now(), 8);
  assert.throws(() => clock.advance(-1), /cannot go back/);
});
