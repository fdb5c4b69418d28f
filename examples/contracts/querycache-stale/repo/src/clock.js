/** Milliseconds since the epoch. */
export const systemClock = { now: () => Date.now() };

/** A clock that moves only when told to. */
export class ManualClock {
  #now;

  constructor(start = 0) {
    this.#now = start;
  }

  now() {
    return this.#now;
  }

  advance(milliseconds) {
    if (!(milliseconds >= 0)) {
      throw new RangeError(`a clock cannot go back by ${milliseconds}`);
    }
    this.#now += milliseconds;
  }
}
