package io.firndb.bench;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.lmdbjava.Dbi;
import org.lmdbjava.DbiFlags;
import org.lmdbjava.Env;
import org.lmdbjava.EnvFlags;
import org.lmdbjava.Txn;

/**
 * LMDB through lmdbjava, with its default buffers, which are direct.
 *
 * <p>All gets are in one transaction, which is the fastest form; it begins with the first get after
 * a put. A put is a transaction, which does not wait for the disk.
 */
final class LmdbStore implements Store {
    private final Env<ByteBuffer> env;
    private final Dbi<ByteBuffer> db;
    private final ByteBuffer key = ByteBuffer.allocateDirect(Long.BYTES);
    private final ByteBuffer value = ByteBuffer.allocateDirect(Records.VALUE_BYTES);
    private Txn<ByteBuffer> read;

    LmdbStore(Path dir) {
        env = Env.create().setMapSize(1L << 34).open(
                dir.toFile(), EnvFlags.MDB_NOSYNC, EnvFlags.MDB_NOMETASYNC);
        db = env.openDbi((byte[]) null, DbiFlags.MDB_CREATE);
    }

    private ByteBuffer find(byte[] key) {
        if (read == null) {
            read = env.txnRead();
        }
        return db.get(read, this.key.clear().put(key).flip());
    }

    @Override
    public byte[] get(byte[] key) {
        ByteBuffer found = find(key);
        if (found == null) {
            return null;
        }
        byte[] value = new byte[found.remaining()];
        found.get(value);
        return value;
    }

    @Override
    public int get(byte[] key, ByteBuffer to) {
        ByteBuffer found = find(key);
        if (found == null) {
            return -1;
        }
        int length = found.remaining();
        to.clear().put(found);
        return length;
    }

    @Override
    public List<byte[]> getMany(List<byte[]> keys) {
        List<byte[]> values = new ArrayList<>(keys.size());
        for (byte[] key : keys) {
            values.add(get(key));
        }
        return values;
    }

    @Override
    public void put(byte[] key, byte[] value) {
        endReading();
        this.key.clear().put(key).flip();
        this.value.clear().put(value).flip();
        db.put(this.key, this.value);
    }

    private void endReading() {
        if (read != null) {
            read.close();
            read = null;
        }
    }

    @Override
    public void close() {
        endReading();
        env.close();
    }
}
