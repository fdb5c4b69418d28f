import test from "tape";
import { FakeClock } from "@relay/core";
import { request } from "../src/index.js";

test("retry waits for Retry-After", async (t) => {
  const clock = new FakeClock();
  const answers = [{ status: 503, headers: { "retry-after": "2" } }, { status: 200, headers: {} }];
  const pending = request("https://status.example.org/", { clock, send: async () => answers.shift() });
  await clock.runAll();
  t.equal((await pending).status, 200);
  t.equal(clock.now(), 2000);
});
