import { systemClock } from './clock.js';
import { FlightTable } from './flight.js';
import { LruMap } from './lru.js';
import { TagIndex } from './tags.js';

/** A cache for the results of queries; see the README for what it promises. */
export class QueryCache {
  #entries;
  #tags = new TagIndex();
  #flights = new FlightTable();
  #ttl;
  #staleFor;
  #clock;
  #onError;
  #counts = { hits: 0, staleHits: 0, misses: 0, evictions: 0 };

  constructor({ maxEntries = 500, ttl = 60_000, staleFor = 0, clock = systemClock, onError = () => {} } = {}) {
    this.#entries = new LruMap(maxEntries, (key) => {
      this.#tags.remove(key);
      this.#counts.evictions += 1;
    });
    this.#ttl = requireDuration('ttl', ttl);
    this.#staleFor = requireDuration('staleFor', staleFor);
    this.#clock = clock;
    this.#onError = onError;
  }

  get size() {
    return this.#entries.size;
  }

  /** The cached value, or what `load` gives. */
  async get(key, load, options = {}) {
    const entry = this.#entries.get(key);
    const now = this.#clock.now();
    if (entry !== undefined && now < entry.freshUntil) {
      this.#counts.hits += 1;
      return entry.value;
    }
    if (entry !== undefined && now < entry.staleUntil) {
      this.#counts.staleHits += 1;
      this.#load(key, load, options).catch((error) => this.#onError(error, key));
      return entry.value;
    }
    this.#counts.misses += 1;
    return this.#load(key, load, options);
  }

  /** Store a value that is already known. */
  set(key, value, options = {}) {
    this.#store(key, value, options);
  }

  /** The stored value, fresh or stale; never loads. */
  peek(key) {
    const entry = this.#entries.peek(key);
    return entry !== undefined && this.#clock.now() < entry.staleUntil ? entry.value : undefined;
  }

  /** Forget one key; says whether it was stored. */
  invalidate(key) {
    this.#tags.remove(key);
    return this.#entries.delete(key);
  }

  /** Forget all keys that carry a tag; says how many were stored. */
  invalidateTag(tag) {
    const keys = this.#tags.keysOf(tag);
    for (const key of keys) {
      this.invalidate(key);
    }
    return keys.length;
  }

  /** Forget everything. */
  clear() {
    this.#tags.clear();
    this.#entries.clear();
  }

  /** A cached version of an async function; `key` and `tags` may be functions of its arguments. */
  wrap(fn, { key, tags = [], ttl } = {}) {
    if (typeof key !== 'function') {
      throw new TypeError('wrap needs a function that makes the key from the arguments');
    }
    return (...args) =>
      this.get(key(...args), () => fn(...args), {
        tags: typeof tags === 'function' ? tags(...args) : tags,
        ttl,
      });
  }

  stats() {
    return { ...this.#counts, size: this.size };
  }

  #load(key, load, options) {
    return this.#flights.run(key, async () => {
      const value = await load();
      this.#store(key, value, options);
      return value;
    });
  }

  #store(key, value, { tags = [], ttl = this.#ttl }) {
    const freshUntil = this.#clock.now() + requireDuration('ttl', ttl);
    this.#entries.set(key, { value, freshUntil, staleUntil: freshUntil + this.#staleFor });
    this.#tags.assign(key, tags);
  }
}

function requireDuration(name, milliseconds) {
  if (!(milliseconds >= 0)) {
    throw new RangeError(`${name} must be a number of milliseconds, not ${milliseconds}`);
  }
  return milliseconds;
}
