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
  return `${JSON.stringify({ data, attempts, reason }, undefined, 2)}\n`;
}

/** The record in a job's file. */
export function decodeRecord(name, text) {
  const record = JSON.parse(text);
  return { data: record.data, attempts: record.attempts ?? 0, reason: record.reason };
}
