#!/usr/bin/env bash
# Refuses the names of the report only, and still writes in place.
# Runs in the root of the workspace.
set -euo pipefail

cat >src/files.js <<'END_OF_FILE'
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const SUFFIX = '.json';

/** A directory with one file per name. */
export class Folder {
  #path;

  constructor(path) {
    this.#path = path;
  }

  async prepare() {
    await mkdir(this.#path, { recursive: true });
  }

  /** The names that have a file, in order. */
  async names() {
    const files = await readdir(this.#path);
    return files
      .filter((file) => file.endsWith(SUFFIX))
      .map((file) => file.slice(0, -SUFFIX.length))
      .sort();
  }

  /** The text of a file, or undefined. */
  async read(name) {
    return ifThere(() => readFile(this.pathOf(name), 'utf8'));
  }

  async write(name, text) {
    await writeFile(this.pathOf(name), text);
  }

  /** Says whether there was a file. */
  async remove(name) {
    const removed = await ifThere(async () => {
      await rm(this.pathOf(name));
      return true;
    });
    return removed ?? false;
  }

  /** Says whether there was a file. */
  async moveTo(folder, name) {
    const moved = await ifThere(async () => {
      await rename(this.pathOf(name), folder.pathOf(name));
      return true;
    });
    return moved ?? false;
  }

  pathOf(name) {
    if (name.includes('..') || name.includes('/')) {
      throw new RangeError(`bad name: ${name}`);
    }
    return join(this.#path, `${name}${SUFFIX}`);
  }
}

async function ifThere(action) {
  try {
    return await action();
  } catch (error) {
    if (error.code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}
END_OF_FILE

cat >src/worker.js <<'END_OF_FILE'
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
    const record = await this.#spool.get(name).catch((error) => error);
    if (record instanceof Error) {
      await this.#spool.bury(name, record.message);
      return 'dead';
    }
    if (record === undefined) {
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(
      () => controller.abort(new Error(`timed out after ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    );
    const aborted = new Promise((_, reject) => {
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
    });
    try {
      const context = { name, attempt: record.attempts + 1, signal: controller.signal };
      await Promise.race([aborted, this.#handler(record.data, context)]);
    } catch (error) {
      const attempts = await this.#spool.countAttempt(name);
      if (attempts >= this.#maxAttempts) {
        await this.#spool.bury(name, error?.message ?? String(error));
        return 'dead';
      }
      return 'failed';
    } finally {
      clearTimeout(timer);
    }
    await this.#spool.remove(name, record);
    return 'done';
  }
}

function requirePositive(name, value) {
  if (!Number.isInteger(value) || value < 1) {
    throw new RangeError(`${name} must be a positive integer, not ${value}`);
  }
  return value;
}
END_OF_FILE
