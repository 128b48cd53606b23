package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ShardedTableTest {
    @TempDir
    Path dir;

    /** The files of a table with the keys {@code key 0} and so on. */
    private List<Path> shards(int shards, int records) {
        return Tests.shards(dir, shards, records);
    }

    @ParameterizedTest
    @EnumSource
    void recordsAreInTheirShards(Access access) {
        List<Path> files = shards(3, 5000);
        try (ShardedTable table = ShardedTable.open(files, access)) {
            ByteBuffer heap = ByteBuffer.allocate(20);
            ByteBuffer direct = ByteBuffer.allocateDirect(20);
            List<byte[]> keys = new ArrayList<>();
            for (int i = 0; i < 5100; i++) {
                byte[] key = bytes("key " + i);
                keys.add(key);
                String value = i < 5000 ? "value " + i : null;
                assertEquals(value, text(table.get(key)));
                assertEquals(value, text(table.get(ByteBuffer.wrap(key))));
                assertEquals(value != null, table.contains(key));
                assertEquals(value != null, table.contains(ByteBuffer.wrap(key)));
                int length = value == null ? -1 : value.length();
                assertEquals(length, table.get(key, heap.clear()));
                assertEquals(length, table.get(ByteBuffer.wrap(key), direct.clear()));
                assertEquals(heap.flip(), direct.flip());
            }
            List<byte[]> values = table.getMany(keys);
            for (int i = 0; i < 5100; i++) {
                assertEquals(i < 5000 ? "value " + i : null, text(values.get(i)));
            }
            assertEquals("value 7", text(table.getAsync(keys.get(7)).join()));
            AsyncReader async = table.asyncReader(Runnable::run);
            assertEquals("value 8", text(async.get(keys.get(8)).join()));
            assertEquals(5000, table.size());
            assertEquals(3, table.shards());
            assertEquals(files, table.paths());
            assertEquals(5000, table.verify().records());
            assertEquals(3, table.verify().files());
            assertEquals("", table.valueSchema());
        }
    }

    @Test
    void valuesThatDoNotFitAreLeft() {
        try (ShardedTable table = ShardedTable.open(shards(2, 10))) {
            ByteBuffer small = ByteBuffer.allocate(3);
            assertEquals(7, table.get(bytes("key 1"), small));
            assertEquals(0, small.position());
            assertArrayEquals(new byte[3], small.array());
        }
    }

    @Test
    void statisticsAreSums() throws Exception {
        try (ShardedTable table = ShardedTable.open(shards(4, 1000))) {
            ShardedTable.Stats stats = table.stats();
            assertEquals(4, stats.shards());
            assertEquals(1000, stats.records());
            assertTrue(stats.smallestShardRecords() > 150);
            assertTrue(stats.largestShardRecords() < 350);
            assertTrue(stats.smallestShardRecords() < stats.largestShardRecords());
            assertTrue(stats.blocks() >= 4 && stats.keyBytes() > 5000 && stats.valueBytes() > 7000);
            long bytes = 0;
            for (Path file : table.paths()) {
                bytes += Files.size(file);
            }
            assertEquals(bytes, stats.fileBytes());
            assertTrue(stats.offHeapBytes() > 0);
            assertEquals(0, stats.filterBytes() + stats.indexBytes());
        }
    }

    @Test
    void iterationVisitsAllShards() {
        // With 40 shards of 20 records most shards are not empty; with 40 of 2 some are.
        for (int records : new int[] {0, 2, 20, 5000}) {
            Path files = dir.resolve("of-" + records);
            Set<String> seen = new HashSet<>();
            try (ShardedTable table = ShardedTable.open(Tests.shards(files, 40, records));
                    Stream<Entry> stream = table.stream()) {
                stream.forEach(entry -> {
                    assertTrue(seen.add(text(entry.key())));
                    assertEquals(text(entry.key()).replace("key", "value"), text(entry.value()));
                });
                assertEquals(records, seen.size());
            }
        }
        ShardedTable table = ShardedTable.open(shards(3, 5000));
        EntryIterator iterator = table.iterator();
        int shard = 0;
        while (iterator.hasNext()) {
            int next = ShardedTable.shardOf(iterator.next().key(), 3);
            assertTrue(next >= shard, "shards are visited in their order");
            shard = next;
        }
        EntryIterator cut = table.iterator();
        cut.next();
        table.close();
        assertThrows(IllegalStateException.class, () -> {
            while (cut.hasNext()) {
                cut.next();
            }
        });
    }

    @Test
    void theShardOfAKeyIsFixed() {
        // The numbers are part of the format: the tests of the Rust library have the same.
        assertEquals(124, ShardedTable.shardOf(bytes(""), 1000));
        assertEquals(10, ShardedTable.shardOf(bytes("key 1"), 1000));
        assertEquals(74_123, ShardedTable.shardOf(bytes("Oslo"), 100_000));
        assertEquals(856, ShardedTable.shardOf(new byte[300], 1000));
        assertEquals(0, ShardedTable.shardOf(bytes("a"), 1));
        byte[] key = bytes("key");
        int shard = ShardedTable.shardOf(key, 100_000);
        ByteBuffer direct = ByteBuffer.allocateDirect(5).put(1, key).position(1).limit(4);
        assertEquals(shard, ShardedTable.shardOf(direct, 100_000));
        assertEquals(1, direct.position());
        assertEquals(shard, ShardedTable.shardOf(ByteBuffer.wrap(key).asReadOnlyBuffer(), 100_000));
        for (int wrong : new int[] {0, -1, 100_001, Integer.MIN_VALUE}) {
            assertThrows(
                    IllegalArgumentException.class, () -> ShardedTable.shardOf(key, wrong));
        }
        assertThrows(NullPointerException.class, () -> ShardedTable.shardOf((byte[]) null, 2));
    }

    @Test
    void aDirectoryIsOpened() throws Exception {
        List<Path> files = shards(3, 300);
        try (ShardedTable table = ShardedTable.openDir(dir)) {
            assertEquals(300, table.size());
            assertEquals(files, table.paths());
        }
        Path last = Files.move(files.get(2), dir.resolveSibling("last.table"));
        IllegalArgumentException missing =
                assertThrows(IllegalArgumentException.class, () -> ShardedTable.openDir(dir));
        assertTrue(missing.getMessage().contains("shard"), missing.getMessage());
        Files.move(last, dir.resolve("other"));
        IllegalArgumentException other =
                assertThrows(IllegalArgumentException.class, () -> ShardedTable.openDir(dir));
        assertTrue(other.getMessage().contains("other"), other.getMessage());
        assertThrows(NotFoundException.class, () -> ShardedTable.openDir(dir.resolve("none")));
        assertThrows(
                IllegalArgumentException.class,
                () -> ShardedTable.openDir(Files.createDirectory(dir.resolve("empty"))));
    }

    @Test
    void wrongFilesAreRefused() throws Exception {
        List<Path> files = shards(2, 100);
        assertThrows(IllegalArgumentException.class, () -> ShardedTable.open(List.of()));
        assertThrows(
                NotFoundException.class,
                () -> ShardedTable.open(List.of(files.get(0), dir.resolve("none"))));
        Path swapped = dir.resolve("swapped");
        try (ShardedTable table = ShardedTable.open(List.of(files.get(1), files.get(0)))) {
            CorruptException error = assertThrows(CorruptException.class, table::verify);
            assertEquals(files.get(1), error.path());
            assertEquals(100, table.size());
        }
        TableBuilder.Options options = TableBuilder.Options.defaults().valueSchema("\"string\"");
        try (TableBuilder builder = TableBuilder.create(swapped, options)) {
            builder.finish();
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> ShardedTable.open(List.of(files.get(0), swapped)));
        try (ShardedTable table = ShardedTable.open(List.of(swapped))) {
            assertEquals("\"string\"", table.valueSchema());
            assertNull(table.get(bytes("key 1")));
            assertFalse(table.contains(new byte[0]));
        }
        byte[] damaged = Files.readAllBytes(files.get(1));
        damaged[damaged.length / 2] ^= 1;
        Files.write(files.get(1), damaged);
        try (ShardedTable table = ShardedTable.open(files, Access.BUFFERED)) {
            CorruptException error = assertThrows(CorruptException.class, table::verify);
            assertEquals(files.get(1), error.path());
            assertTrue(error.offset() >= 0);
        }
    }

    @Test
    void aClosedTableThrows() {
        ShardedTable table = ShardedTable.open(shards(2, 10));
        table.close();
        table.close();
        assertThrows(IllegalStateException.class, () -> table.get(bytes("key 1")));
        assertThrows(
                IllegalStateException.class, () -> table.get(bytes("key 1"), ByteBuffer.allocate(9)));
        assertThrows(IllegalStateException.class, () -> table.contains(bytes("key 1")));
        assertThrows(IllegalStateException.class, () -> table.getMany(List.of(bytes("key 1"))));
        assertThrows(IllegalStateException.class, table::iterator);
        assertThrows(IllegalStateException.class, table::size);
        assertThrows(IllegalStateException.class, table::stats);
        assertThrows(IllegalStateException.class, table::verify);
        assertThrows(IllegalStateException.class, table::paths);
        assertThrows(IllegalStateException.class, table::valueSchema);
    }
}
