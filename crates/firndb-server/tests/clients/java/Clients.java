import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

/** Jedis and Lettuce against a server with an empty database 0; the argument is its port. */
public class Clients {
    static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void jedis(int port) {
        try (Jedis jedis = new Jedis("127.0.0.1", port)) {
            check(jedis.set("text", "value", SetParams.setParams().ex(100)).equals("OK"), "set");
            check(jedis.get("text").equals("value") && jedis.get("none") == null, "get");
            var pipeline = jedis.pipelined();
            for (int n = 0; n < 500; n++) {
                pipeline.set("key:" + n, "" + n);
            }
            check(pipeline.syncAndReturnAll().size() == 500, "pipeline");
            var transaction = jedis.multi();
            transaction.incr("count");
            transaction.get("count");
            check(transaction.exec().equals(List.of(1L, "1")), "transaction");
            var keys = new ArrayList<String>();
            String cursor = "0";
            do {
                var page = jedis.scan(cursor, new ScanParams().match("key:*").count(50));
                keys.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals("0"));
            check(keys.size() == 500, "scan");
            try {
                jedis.incr("text");
                check(false, "incr");
            } catch (JedisDataException e) {
                check(e.getMessage().contains("not an integer"), e.getMessage());
            }
            jedis.flushDB();
        }
    }

    static void lettuce(int port) {
        var client = RedisClient.create(RedisURI.create("127.0.0.1", port));
        try (var connection = client.connect()) {
            var redis = connection.sync();
            check(redis.set("text", "value").equals("OK"), "set");
            check(redis.get("text").equals("value") && redis.get("none") == null, "get");
            check(redis.mget("text", "none").get(1).equals(KeyValue.empty("none")), "mget");
            var async = connection.async();
            for (int n = 0; n < 500; n++) {
                async.set("key:" + n, "" + n);
            }
            redis.multi();
            redis.incr("count");
            redis.get("count");
            check(redis.exec().<Object>get(0).equals(1L), "transaction");
            int count = 0;
            for (var scan = ScanIterator.scan(redis, ScanArgs.Builder.matches("key:*").limit(50));
                    scan.hasNext(); scan.next()) {
                count++;
            }
            check(count == 500, "scan " + count);
            check(redis.expire("text", 50) && redis.ttl("text") == 50, "expire");
            redis.flushdb();
        }
        client.shutdown();
    }

    public static void main(String[] args) {
        int port = Integer.parseInt(args[0]);
        jedis(port);
        lettuce(port);
        System.out.println("ok");
    }
}
