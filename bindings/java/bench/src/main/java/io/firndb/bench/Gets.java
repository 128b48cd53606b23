package io.firndb.bench;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** Gets of random keys from a store that was filled before. Each JVM has one engine. */
@State(Scope.Thread)
public class Gets {
    /** Random keys, which are read in turn: a power of two. */
    private static final int KEYS = 1 << 20;

    /** Keys of a batch. */
    static final int BATCH = 100;

    @Param("firndb")
    String engine;

    @Param("")
    String dir;

    @Param("0")
    int records;

    private Store store;
    private byte[][] keys;
    private List<List<byte[]>> batches;
    private final ByteBuffer to = ByteBuffer.allocateDirect(Records.VALUE_BYTES);
    private int next;

    /** Opens the store and reads all records, so that they are in memory. */
    @Setup(Level.Trial)
    public void open() throws Exception {
        store = Store.open(engine, Path.of(dir), true);
        Store.check(engine, store, records);
        keys = Records.randomKeys(KEYS, records);
        batches = new ArrayList<>();
        for (int at = 0; at + BATCH <= KEYS; at += BATCH) {
            batches.add(Arrays.asList(Arrays.copyOfRange(keys, at, at + BATCH)));
        }
        List<byte[]> first = batches.get(0);
        if (!Arrays.deepEquals(many(first).toArray(), singles(first).toArray())) {
            throw new IllegalStateException(engine + ": getMany and get have different values");
        }
    }

    @TearDown(Level.Trial)
    public void close() {
        store.close();
    }

    private byte[] key() {
        next = (next + 1) & (KEYS - 1);
        return keys[next];
    }

    private List<byte[]> batch() {
        next = next + 1 < batches.size() ? next + 1 : 0;
        return batches.get(next);
    }

    @Benchmark
    public byte[] get() throws Exception {
        return store.get(key());
    }

    @Benchmark
    public int getInto() throws Exception {
        return store.get(key(), to);
    }

    @Benchmark
    public List<byte[]> getMany() throws Exception {
        return many(batch());
    }

    @Benchmark
    public List<byte[]> getSingly() throws Exception {
        return singles(batch());
    }

    private List<byte[]> many(List<byte[]> keys) throws Exception {
        return store.getMany(keys);
    }

    private List<byte[]> singles(List<byte[]> keys) throws Exception {
        List<byte[]> values = new ArrayList<>(keys.size());
        for (byte[] key : keys) {
            values.add(store.get(key));
        }
        return values;
    }
}
