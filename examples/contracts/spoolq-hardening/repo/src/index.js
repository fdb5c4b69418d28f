export { CorruptJobError } from './record.js';
export { Spool } from './spool.js';
export { Worker } from './worker.js';
