/** Gives jobs to a handler. */
export class Worker {
  #spool;
  #handler;
  #maxAttempts;
  #timeoutMs;

  constructor(spool, handler, { maxAttempts = 5, timeoutMs = 30_000 } = {}) {
    this.#spool = spool;
    this.#handler = handler;
    this.#maxAttempts = requirePositive('maxAttempts', maxAttempts);
    this.#timeoutMs = requirePositive('timeoutMs', timeoutMs);
  }

  /** Hand out each job that waits, once; says which were done, failed, or given up. */
  async drain() {
    const report = { done: [], failed: [], dead: [] };
    for (const name of await this.#spool.names()) {
      const outcome = await this.#work(name);
      if (outcome !== undefined) {
        report[outcome].push(name);
      }
    }
    return report;
  }

  /** The outcome of one job; undefined if somebody else took it. */
  async #work(name) {
    const record = await this.#spool.get(name);
    if (record === undefined) {
      return undefined;
    }
    const controller = new AbortController();
    try {
      await this.#handler(record.data, { name, attempt: record.attempts + 1, signal: controller.signal });
    } catch {
      await this.#spool.countAttempt(name);
      return 'failed';
    }
    await this.#spool.remove(name);
    return 'done';
  }
}

function requirePositive(name, value) {
  if (!Number.isInteger(value) || value < 1) {
    throw new RangeError(`${name} must be a positive integer, not ${value}`);
  }
  return value;
}
