#!/usr/bin/env bash
# Repairs all of it, in another way than the reference.
# Runs in the root of the workspace.
set -euo pipefail

cat >src/files.js <<'END_OF_FILE'
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const SUFFIX = '.json';
const HALF = '.half';
let writes = 0;

/** A directory with one file per name. */
export class Folder {
  #path;

  constructor(path) {
    this.#path = path;
  }

  async prepare() {
    await mkdir(this.#path, { recursive: true });
    const remains = (await readdir(this.#path)).filter((file) => file.startsWith('.') && file.endsWith(HALF));
    await Promise.all(remains.map((file) => rm(join(this.#path, file), { force: true })));
  }

  /** The names that have a file, in order. */
  async names() {
    const files = await readdir(this.#path);
    return files
      .filter((file) => file.endsWith(SUFFIX))
      .map((file) => file.slice(0, -SUFFIX.length))
      .filter(isPlain)
      .sort();
  }

  /** The text of a file, or undefined. */
  async read(name) {
    return ifThere(() => readFile(this.pathOf(name), 'utf8'));
  }

  async write(name, text) {
    const target = this.pathOf(name);
    writes += 1;
    const half = join(this.#path, `.${name}-${process.pid}-${writes}${HALF}`);
    await writeFile(half, text, { flush: true });
    await rename(half, target);
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
    if (!isPlain(name)) {
      throw new RangeError(`expected a plain name, found ${String(name)}`);
    }
    return join(this.#path, `${name}${SUFFIX}`);
  }
}

/** Whether a name can be the name of a file here and nowhere else. */
function isPlain(name) {
  if (typeof name !== 'string' || name.length === 0 || name.length > 100 || name[0] === '.') {
    return false;
  }
  return [...name].every((char) => /[A-Za-z0-9._-]/.test(char));
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

cat >src/record.js <<'END_OF_FILE'
/** A file of the spool that is not a job. */
export class CorruptJobError extends Error {
  constructor(name, cause) {
    super(`job ${name} is not readable: ${cause}`);
    this.name = 'CorruptJobError';
    this.job = name;
  }
}

/** The text of a job's file. */
export function encodeRecord({ data, attempts = 0, reason }) {
  if (JSON.stringify(data) === undefined) {
    throw new TypeError('the data of a job must be something that JSON can express');
  }
  return `${JSON.stringify({ data, attempts, reason }, undefined, 2)}\n`;
}

/** The record in a job's file. */
export function decodeRecord(name, text) {
  const { data, attempts = 0, reason } = parseObject(name, text);
  if (data === undefined) {
    throw new CorruptJobError(name, 'it has no data');
  }
  if (!Number.isInteger(attempts) || attempts < 0) {
    throw new CorruptJobError(name, `${attempts} attempts`);
  }
  return { data, attempts, reason };
}

function parseObject(name, text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CorruptJobError(name, error.message);
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new CorruptJobError(name, 'it is not an object');
  }
  return value;
}
END_OF_FILE

cat >src/spool.js <<'END_OF_FILE'
import { join } from 'node:path';

import { Folder } from './files.js';
import { CorruptJobError, decodeRecord, encodeRecord } from './record.js';

/** Jobs that wait, and jobs that were given up, in a directory. */
export class Spool {
  #jobs;
  #dead;

  constructor(directory) {
    this.#jobs = new Folder(join(directory, 'jobs'));
    this.#dead = new Folder(join(directory, 'dead'));
  }

  /** A spool whose directories exist. */
  static async open(directory) {
    const spool = new Spool(directory);
    await spool.#jobs.prepare();
    await spool.#dead.prepare();
    return spool;
  }

  names() {
    return this.#jobs.names();
  }

  deadNames() {
    return this.#dead.names();
  }

  /** Add a job, or replace it. */
  async put(name, data) {
    await this.#jobs.write(name, encodeRecord({ data }));
  }

  /** The record of a job that waits: data and attempts. */
  async get(name) {
    return this.#decode(name, await this.#jobs.read(name));
  }

  /** The record of a job that was given up: data, attempts and reason. */
  async getDead(name) {
    return this.#decode(name, await this.#dead.read(name));
  }

  /** Count a failed attempt; says how many there were. */
  async countAttempt(name) {
    const record = await this.get(name);
    if (record === undefined) {
      return 0;
    }
    const attempts = record.attempts + 1;
    await this.#jobs.write(name, encodeRecord({ ...record, attempts }));
    return attempts;
  }

  /** Remove a job; with `only`, not if it is another one by now. */
  async remove(name, only) {
    if (only !== undefined && (await this.#jobs.read(name)) !== encodeRecord(only)) {
      return false;
    }
    return this.#jobs.remove(name);
  }

  /** Give a job up. */
  async bury(name, reason) {
    let record;
    try {
      record = await this.get(name);
    } catch (error) {
      if (error instanceof CorruptJobError) {
        return this.#jobs.moveTo(this.#dead, name);
      }
      throw error;
    }
    if (record === undefined) {
      return false;
    }
    await this.#dead.write(name, encodeRecord({ ...record, reason }));
    return this.#jobs.remove(name);
  }

  /** Let a job that was given up wait again. */
  async revive(name) {
    const record = await this.getDead(name);
    if (record === undefined) {
      return false;
    }
    await this.put(name, record.data);
    return this.#dead.remove(name);
  }

  #decode(name, text) {
    return text === undefined ? undefined : decodeRecord(name, text);
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
