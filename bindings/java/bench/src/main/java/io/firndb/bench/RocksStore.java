package io.firndb.bench;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/** RocksDB through rocksdbjni. */
final class RocksStore implements Store {
    private final Options options = new Options().setCreateIfMissing(true);
    private final ReadOptions read = new ReadOptions();
    private final RocksDB db;
    private final ByteBuffer key = ByteBuffer.allocateDirect(Long.BYTES);

    RocksStore(Path dir, boolean forGets) throws RocksDBException {
        RocksDB.loadLibrary();
        if (forGets) {
            // The cache holds everything, and filters spare reads.
            options.setCompressionType(CompressionType.NO_COMPRESSION);
            options.setTableFormatConfig(new BlockBasedTableConfig()
                    .setBlockCache(new LRUCache(1L << 30))
                    .setFilterPolicy(new BloomFilter(10, false)));
        }
        db = RocksDB.open(options, dir.toString());
    }

    @Override
    public byte[] get(byte[] key) throws RocksDBException {
        return db.get(key);
    }

    @Override
    public int get(byte[] key, ByteBuffer to) throws RocksDBException {
        // Both must be direct. The buffer of the result is limited to the value.
        this.key.clear().put(key).flip();
        return db.get(read, this.key, to.clear());
    }

    @Override
    public List<byte[]> getMany(List<byte[]> keys) throws RocksDBException {
        return db.multiGetAsList(keys);
    }

    @Override
    public void put(byte[] key, byte[] value) throws RocksDBException {
        db.put(key, value);
    }

    @Override
    public void settle() throws RocksDBException {
        try (FlushOptions flush = new FlushOptions()) {
            db.flush(flush);
        }
        db.compactRange();
    }

    @Override
    public void close() {
        db.close();
        read.close();
        options.close();
    }
}
