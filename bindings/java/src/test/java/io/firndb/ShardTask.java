package io.firndb;

import static io.firndb.Tests.bytes;

import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;

/**
 * A task of a job, as Spark, Flink or Hadoop run it: builds a shard of a table in a directory of
 * its own and stages it. {@link TaskTest} loads this class with a class loader of its own.
 */
public final class ShardTask implements Callable<byte[]> {
    private final Path catalog;
    private final Path work;
    private final int shard;
    private final int shards;
    private final int records;
    private final boolean fails;

    /**
     * A task.
     *
     * @param catalog the directory of the catalog
     * @param work the directory of the task
     * @param shard the number of its shard
     * @param shards how many shards there are
     * @param records how many records all shards have
     * @param fails whether the task fails before the shard is finished
     */
    public ShardTask(
            Path catalog, Path work, int shard, int shards, int records, boolean fails) {
        this.catalog = catalog;
        this.work = work;
        this.shard = shard;
        this.shards = shards;
        this.records = records;
        this.fails = fails;
    }

    /**
     * Runs the task.
     *
     * @return the staged file, serialized
     */
    @Override
    public byte[] call() throws Exception {
        Path file = work.resolve("shard.table");
        TableBuilder.Options options =
                TableBuilder.Options.defaults().memoryLimit(16 << 20).tempDir(work).threads(2);
        try (Catalog opened = Catalog.open(catalog)) {
            try (TableBuilder builder = TableBuilder.create(file, options)) {
                for (int i = 0; i < records; i++) {
                    byte[] key = bytes("key " + i);
                    if (ShardedTable.shardOf(key, shards) == shard) {
                        builder.add(key, bytes("value " + i));
                    }
                }
                if (fails) {
                    throw new IllegalArgumentException("the task fails");
                }
                builder.finish();
            }
            Staged staged = opened.stage("words", file);
            Files.delete(file);
            ByteArrayOutputStream result = new ByteArrayOutputStream();
            try (ObjectOutputStream out = new ObjectOutputStream(result)) {
                out.writeObject(staged);
            }
            return result.toByteArray();
        }
    }
}
