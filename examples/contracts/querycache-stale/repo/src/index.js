export { QueryCache } from './cache.js';
export { ManualClock, systemClock } from './clock.js';
export { queryKey } from './keys.js';
