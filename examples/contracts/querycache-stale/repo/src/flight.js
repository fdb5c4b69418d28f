/** Loads that are under way: whoever asks for the same key meanwhile shares the one that runs. */
export class FlightTable {
  #flights = new Map();

  /** The promise of the load that runs for this key; `load` is called if there is none. */
  run(key, load) {
    const running = this.#flights.get(key);
    if (running !== undefined) {
      return running;
    }
    // Through a promise, so that a load that throws at once ends like one that rejects.
    const flight = Promise.resolve()
      .then(load)
      .finally(() => this.#flights.delete(key));
    this.#flights.set(key, flight);
    return flight;
  }
}
