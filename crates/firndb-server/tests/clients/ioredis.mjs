// ioredis against a server with an empty database 0; the argument is its port.
import assert from "node:assert/strict";
import { Redis } from "ioredis";

const client = new Redis(Number(process.argv[2]), "127.0.0.1");
assert.equal(await client.set("text", "value", "EX", 100), "OK");
assert.equal(await client.get("text"), "value");
assert.deepEqual(await client.mget("text", "none"), ["value", null]);
const pipeline = client.pipeline();
for (let n = 0; n < 500; n++) pipeline.set(`key:${n}`, n);
assert.ok((await pipeline.exec()).every(([error, reply]) => error === null && reply === "OK"));
assert.deepEqual(await client.multi().incr("count").get("count").exec(), [[null, 1], [null, "1"]]);
const keys = new Set();
for await (const page of client.scanStream({ match: "key:*", count: 50 })) {
  page.forEach((key) => keys.add(key));
}
assert.equal(keys.size, 500);
await assert.rejects(client.incr("text"), /not an integer/);
assert.equal(await client.flushdb(), "OK");
await client.quit();
console.log("ok");
