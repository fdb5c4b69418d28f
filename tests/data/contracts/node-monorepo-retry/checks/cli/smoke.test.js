import assert from "node:assert/strict";
import { test } from "node:test";
import { main } from "../src/main.js";

test("prints its version", () => {
  assert.match(main(["--version"]), /^\d+\.\d+\.\d+$/);
});
