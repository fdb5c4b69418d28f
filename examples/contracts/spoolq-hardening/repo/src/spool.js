import { join } from 'node:path';

import { Folder } from './files.js';
import { decodeRecord, encodeRecord } from './record.js';

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

  async remove(name) {
    return this.#jobs.remove(name);
  }

  /** Give a job up. */
  async bury(name, reason) {
    const record = await this.get(name);
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
