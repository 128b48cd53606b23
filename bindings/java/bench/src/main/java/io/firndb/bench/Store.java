package io.firndb.bench;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/** An engine with an open store. Used by one thread. */
interface Store extends AutoCloseable {
    /** Names of the engines. */
    List<String> ENGINES = List.of("firndb", "rocksdb", "lmdb");

    /** A copy of the value. */
    byte[] get(byte[] key) throws Exception;

    /** Copies the value to the beginning of a direct buffer. Returns its length. */
    int get(byte[] key, ByteBuffer to) throws Exception;

    /** Copies of the values. */
    List<byte[]> getMany(List<byte[]> keys) throws Exception;

    void put(byte[] key, byte[] value) throws Exception;

    /** Brings a store that was filled into the state in which it is read fastest. */
    default void settle() throws Exception {}

    @Override
    void close();

    /**
     * Opens a store or creates one.
     *
     * @param forGets whether to use the options with which gets are fastest, in place of the
     *     defaults
     */
    static Store open(String engine, Path dir, boolean forGets) throws Exception {
        Files.createDirectories(dir);
        return switch (engine) {
            case "firndb" -> new FirnStore(dir);
            case "rocksdb" -> new RocksStore(dir, forGets);
            case "lmdb" -> new LmdbStore(dir);
            default -> throw new IllegalArgumentException("unknown engine " + engine);
        };
    }

    /** Fills a new store for gets, in random order. */
    static void fill(String engine, Path dir, int records) throws Exception {
        try (Store store = open(engine, dir, true)) {
            for (int number : Records.shuffled(records)) {
                store.put(Records.key(number), Records.value(number));
            }
            store.settle();
        }
    }

    /** Compares all values with what was put. */
    static void check(String engine, Store store, int records) throws Exception {
        ByteBuffer buffer = ByteBuffer.allocateDirect(Records.VALUE_BYTES);
        byte[] copy = new byte[Records.VALUE_BYTES];
        for (int number = 0; number < records; number++) {
            byte[] key = Records.key(number);
            byte[] value = Records.value(number);
            boolean isRight = Arrays.equals(store.get(key), value);
            isRight &= store.get(key, buffer) == value.length;
            buffer.get(0, copy);
            if (!isRight || !Arrays.equals(copy, value)) {
                throw new IllegalStateException(engine + ": a wrong value of record " + number);
            }
        }
    }
}
