"""redis-py against a server with empty databases 0 and 1; the argument is its port."""

import sys

import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, decode_responses=True)
    assert client.ping()
    assert client.set("text", "value", ex=100) and client.get("text") == "value"
    assert client.ttl("text") in (99, 100)
    assert client.set("text", "other", nx=True) is None
    assert client.set("text", "new", get=True) == "value"
    assert client.mset({"a": 1, "b": 2}) and client.mget("a", "none", "b") == ["1", None, "2"]
    assert client.incr("count", 5) == 5 and client.incrbyfloat("float", 0.5) == 0.5
    with client.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f"key:{n}", n)
        assert all(pipe.execute())
    with client.pipeline() as pipe:
        pipe.incr("count").get("count").append("count", "0")
        assert pipe.execute() == [6, "6", 2]
    assert len(set(client.scan_iter("key:*", count=77))) == 1000
    assert len(client.keys("key:9?")) == 10

    def double(pipe):
        value = int(pipe.get("count"))
        pipe.multi()
        pipe.set("count", value * 2)

    assert client.transaction(double, "count") == [True]
    watching = client.pipeline()
    watching.watch("count")
    client.set("count", 1)
    watching.multi()
    watching.set("count", 2)
    try:
        watching.execute()
        raise SystemExit("the watched key was changed")
    except redis.WatchError:
        pass
    watching.reset()
    try:
        client.incr("text")
        raise SystemExit("a text was incremented")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range", error
    assert client.expire("text", 50, gt=True) is False or client.ttl("text") == 50
    assert client.type("text") == "string" and client.exists("text", "none") == 1
    assert client.info()["redis_version"].startswith("7.")
    assert client.config_get("save") == {"save": ""}
    assert client.dbsize() > 1000 and client.memory_usage("text") > 0
    other = redis.Redis(port=port, db=1, protocol=protocol)
    assert other.get("text") is None and other.randomkey() is None
    assert client.flushdb() and client.dbsize() == 0
print("ok")
