package io.firndb.bench;

import io.firndb.LogStore;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;

/** FirnDB's log store with its defaults. */
final class FirnStore implements Store {
    private final LogStore store;

    FirnStore(Path dir) {
        store = LogStore.open(dir);
    }

    @Override
    public byte[] get(byte[] key) {
        return store.get(key);
    }

    @Override
    public int get(byte[] key, ByteBuffer to) {
        to.clear();
        return store.get(key, to);
    }

    @Override
    public List<byte[]> getMany(List<byte[]> keys) {
        return store.getMany(keys);
    }

    @Override
    public void put(byte[] key, byte[] value) {
        store.put(key, value);
    }

    @Override
    public void close() {
        store.close();
    }
}
