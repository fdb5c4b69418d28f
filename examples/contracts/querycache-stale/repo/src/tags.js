/** Which keys carry which tag, and the other way round. */
export class TagIndex {
  #keysOfTag = new Map();
  #tagsOfKey = new Map();

  /** Give a key exactly these tags. */
  assign(key, tags) {
    this.remove(key);
    const own = new Set(tags);
    if (own.size === 0) {
      return;
    }
    this.#tagsOfKey.set(key, own);
    for (const tag of own) {
      if (!this.#keysOfTag.has(tag)) {
        this.#keysOfTag.set(tag, new Set());
      }
      this.#keysOfTag.get(tag).add(key);
    }
  }

  remove(key) {
    for (const tag of this.#tagsOfKey.get(key) ?? []) {
      const keys = this.#keysOfTag.get(tag);
      keys.delete(key);
      if (keys.size === 0) {
        this.#keysOfTag.delete(tag);
      }
    }
    this.#tagsOfKey.delete(key);
  }

  /** A copy, so that entries can be removed while it is walked. */
  keysOf(tag) {
    return [...(this.#keysOfTag.get(tag) ?? [])];
  }

  clear() {
    this.#keysOfTag.clear();
    this.#tagsOfKey.clear();
  }
}
