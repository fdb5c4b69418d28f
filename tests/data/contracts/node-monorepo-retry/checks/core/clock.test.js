import { expect, test } from "vitest";
import { FakeClock } from "../src/clock.js";

test("a fake clock moves only when it is told to", async () => {
  const clock = new FakeClock();
  const slept = clock.sleep(1000);
  clock.advance(1000);
  await slept;
  expect(clock.now()).toBe(1000);
});
