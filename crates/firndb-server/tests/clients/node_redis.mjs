// node-redis against a server with an empty database 0; the argument is its port.
import assert from "node:assert/strict";
import { createClient } from "redis";

for (const RESP of [2, 3]) {
  const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, RESP });
  client.on("error", (error) => { throw error; });
  await client.connect();
  assert.equal(await client.set("text", "value", { EX: 100 }), "OK");
  assert.equal(await client.get("text"), "value");
  assert.equal(await client.get("none"), null);
  await client.mSet({ a: "1", b: "2" });
  assert.deepEqual(await client.mGet(["a", "none", "b"]), ["1", null, "2"]);
  const all = await Promise.all(Array.from({ length: 500 }, (_, n) => client.set(`key:${n}`, `${n}`)));
  assert.ok(all.every((reply) => reply === "OK"));
  assert.deepEqual(await client.multi().incr("count").get("count").exec(), [1, "1"]);
  const keys = new Set();
  for await (const page of client.scanIterator({ MATCH: "key:*", COUNT: 50 })) {
    for (const key of [page].flat()) keys.add(key);
  }
  assert.equal(keys.size, 500);
  await assert.rejects(client.incr("text"), /not an integer/);
  assert.equal(await client.del(["text", "none"]), 1);
  assert.equal(await client.flushDb(), "OK");
  await client.close();
}
console.log("ok");
