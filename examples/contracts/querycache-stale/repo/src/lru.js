/** A map of bounded size that drops the entry which was used longest ago. */
export class LruMap {
  #entries = new Map(); // a Map keeps insertion order: the first key is the oldest
  #maxEntries;
  #onEvict;

  constructor(maxEntries, onEvict = () => {}) {
    if (!Number.isInteger(maxEntries) || maxEntries < 1) {
      throw new RangeError(`maxEntries must be a positive integer, not ${maxEntries}`);
    }
    this.#maxEntries = maxEntries;
    this.#onEvict = onEvict;
  }

  get size() {
    return this.#entries.size;
  }

  /** The entry, which becomes the most recently used one. */
  get(key) {
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, entry);
    }
    return entry;
  }

  /** The entry, without touching the order. */
  peek(key) {
    return this.#entries.get(key);
  }

  set(key, entry) {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (this.#entries.size > this.#maxEntries) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest);
      this.#onEvict(oldest);
    }
  }

  delete(key) {
    return this.#entries.delete(key);
  }

  clear() {
    this.#entries.clear();
  }
}
