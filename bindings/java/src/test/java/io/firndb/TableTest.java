package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TableTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @EnumSource(Access.class)
    void gets(Access access) {
        try (Table table = Table.open(Tests.table(dir, 5000), access)) {
            assertEquals(5000, table.size());
            ByteBuffer to = ByteBuffer.allocateDirect(20);
            ByteBuffer key = ByteBuffer.wrap(bytes("key 7"));
            List<byte[]> keys = new ArrayList<>();
            for (int i = 0; i < 6000; i++) {
                keys.add(bytes("key " + i));
            }
            List<byte[]> values = table.getMany(keys);
            for (int i = 0; i < 6000; i++) {
                String value = i < 5000 ? "value " + i : null;
                assertEquals(value, text(values.get(i)));
                assertEquals(value, text(table.get(keys.get(i))));
                assertEquals(value != null, table.contains(keys.get(i)));
                int length = value == null ? -1 : value.length();
                assertEquals(length, table.get(keys.get(i), to.clear()));
            }
            assertEquals("value 7", text(table.get(key)));
            assertTrue(table.contains(key));
            assertEquals(7, table.get(key, ByteBuffer.allocate(100)));
            assertEquals(7, table.get(key, ByteBuffer.allocate(3)));
            assertEquals(5000, table.verify().records());
            assertEquals("value 3", text(table.getAsync(bytes("key 3")).join()));
        }
    }

    @Test
    void iterationAndScans() {
        Path file = Tests.table(dir, 5000);
        try (Table table = Table.open(file)) {
            List<Entry> records;
            try (Stream<Entry> stream = table.stream()) {
                records = stream.toList();
            }
            assertEquals(5000, records.stream().distinct().count());
            records.forEach(r ->
                    assertEquals(text(r.key()).replace("key", "value"), text(r.value())));
            List<Entry> paged = new ArrayList<>();
            for (long cursor = 0; cursor >= 0; ) {
                ScanPage page = table.scan(cursor, 77);
                paged.addAll(page.entries());
                cursor = page.next();
            }
            assertEquals(records, paged);
            EntryIterator iterator = table.iterator();
            iterator.next();
            table.close();
            assertThrows(IllegalStateException.class, () -> {
                while (iterator.hasNext()) {
                    iterator.next();
                }
            });
            assertThrows(IllegalStateException.class, () -> table.get(bytes("key 1")));
        }
        try (TableBuilder builder = TableBuilder.create(file)) {
            builder.finish();
        }
        try (Table empty = Table.open(file)) {
            assertFalse(empty.iterator().hasNext());
        }
    }

    @Test
    void optionsOfABuild() {
        Path file = dir.resolve("t");
        TableBuilder.Options options = TableBuilder.Options.defaults().blockSize(8192)
                .compression(TableBuilder.Compression.blocks(3))
                .filter(TableBuilder.KeyFilter.BITS_16).duplicates(Duplicates.LAST)
                .memoryLimit(16 << 20).tempDir(dir).threads(1).metadata(bytes("meta"))
                .valueSchema("\"string\"");
        try (TableBuilder builder = TableBuilder.create(file, options)) {
            List<Entry> records = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                records.add(new Entry(bytes("k" + i % 500), bytes("some text, number " + i)));
            }
            builder.addAll(records);
            builder.add(ByteBuffer.wrap(bytes("direct")), ByteBuffer.allocateDirect(9));
            assertEquals(1001, builder.size());
            TableBuilder.Report report = builder.finish();
            assertEquals(501, report.records());
            assertEquals(500, report.duplicates());
            assertThrows(FailedException.class, () -> builder.add(new byte[0], new byte[0]));
            assertThrows(FailedException.class, builder::finish);
        }
        try (Table table = Table.open(file)) {
            assertEquals("some text, number 999", text(table.get(bytes("k499"))));
            assertArrayEquals(new byte[9], table.get(bytes("direct")));
            Table.Stats stats = table.stats();
            assertEquals(TableBuilder.Compression.blocks(3), stats.compression());
            assertEquals(16, stats.filterBits());
            assertEquals(8192, stats.blockSize());
            assertEquals(501, stats.records());
            assertEquals(0, stats.seed());
            assertTrue(stats.offHeapBytes() > 0 && stats.fileBytes() > 0);
            assertEquals("meta", text(table.metadata()));
            assertEquals("\"string\"", table.valueSchema());
            assertEquals(16, table.contentId().length);
            assertEquals(file.toAbsolutePath(), table.path());
        }
    }

    @Test
    void wrongOptionsAreRefused() {
        TableBuilder.Options defaults = TableBuilder.Options.defaults();
        for (TableBuilder.Options wrong : List.of(
                defaults.blockSize(1000), defaults.blockSize(-4096), defaults.memoryLimit(-1),
                defaults.compression(TableBuilder.Compression.records(99)))) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> TableBuilder.create(dir.resolve("t"), wrong));
        }
        assertThrows(IllegalArgumentException.class, () -> defaults.threads(0));
        assertThrows(
                NotFoundException.class, () -> TableBuilder.create(dir.resolve("none/t")));
        assertThrows(NotFoundException.class, () -> Table.open(dir.resolve("none")));
    }

    @Test
    void duplicatesAreRefused() throws Exception {
        try (TableBuilder builder = TableBuilder.create(dir.resolve("t"))) {
            builder.add(bytes("a"), bytes("1"));
            builder.add(bytes("a"), bytes("2"));
            assertThrows(IllegalArgumentException.class, builder::finish);
        }
        try (Stream<Path> files = Files.list(dir)) {
            assertEquals(List.of(), files.toList());
        }
    }

    @Test
    void progressCanCancelAndCannotClose() {
        try (TableBuilder builder = filled("a")) {
            List<Long> totals = new ArrayList<>();
            List<RuntimeException> refused = new ArrayList<>();
            builder.finish((done, total) -> {
                totals.add(total);
                if (refused.isEmpty()) {
                    refused.add(assertThrows(IllegalStateException.class, builder::close));
                    refused.add(assertThrows(FailedException.class, builder::size));
                }
                return true;
            });
            assertTrue(totals.size() > 1);
            assertEquals(2, refused.size());
        }
        try (TableBuilder builder = filled("b")) {
            assertThrows(CancelledException.class, () -> builder.finish((done, total) -> false));
        }
        RuntimeException own = new RuntimeException("mine");
        try (TableBuilder builder = filled("c")) {
            assertEquals(own, assertThrows(RuntimeException.class, () ->
                    builder.finish((done, total) -> {
                        throw own;
                    })));
        }
        assertTrue(Files.exists(dir.resolve("a")));
        assertFalse(Files.exists(dir.resolve("b")) || Files.exists(dir.resolve("c")));
    }

    private TableBuilder filled(String name) {
        TableBuilder builder = TableBuilder.create(dir.resolve(name));
        builder.addAll(IntStream.range(0, 200_000)
                .mapToObj(i -> new Entry(bytes("key " + i), bytes("value " + i)))::iterator);
        return builder;
    }

    @Test
    void aBuildLeavesNoThreads() throws Exception {
        Path tasks = Path.of("/proc/self/task");
        assumeTrue(Files.isDirectory(tasks), "there is no list of threads");
        Tests.table(dir, 10); // Loads the library.
        var before = Thread.getAllStackTraces().keySet();
        long nativeThreads = nativeThreads(tasks);
        AtomicLong most = new AtomicLong();
        try (TableBuilder builder = filled("t")) {
            builder.finish((done, total) -> {
                most.accumulateAndGet(nativeThreads(tasks), Math::max);
                return true;
            });
        }
        assertTrue(most.get() > nativeThreads, "the build has threads while it runs");
        try (TableBuilder abandoned = filled("u")) {
            assertEquals(200_000, abandoned.size());
        }
        var after = new HashSet<>(Thread.getAllStackTraces().keySet());
        after.removeAll(before);
        assertEquals(Set.of(), after);
        long end = System.nanoTime() + 10_000_000_000L;
        while (nativeThreads(tasks) > nativeThreads) {
            assertTrue(System.nanoTime() < end, "native threads are left");
            Thread.sleep(1);
        }
    }

    /** Threads with the system's name of this thread: itself, and native threads that it started. */
    private static long nativeThreads(Path tasks) {
        try (Stream<Path> threads = Files.list(tasks)) {
            String own = Files.readString(Path.of("/proc/thread-self/comm"));
            return threads.filter(task -> own.equals(name(task))).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String name(Path task) {
        try {
            return Files.readString(task.resolve("comm"));
        } catch (IOException e) {
            return "it has ended";
        }
    }

    @Test
    void damageIsReportedWithFileAndOffset() throws Exception {
        Path file = Tests.table(dir, 5000);
        try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
            out.seek(out.length() / 2);
            int old = out.read();
            out.seek(out.length() / 2);
            out.write(old ^ 1);
        }
        try (Table table = Table.open(file, Access.BUFFERED)) {
            CorruptException error = assertThrows(CorruptException.class, table::verify);
            assertEquals(file.toAbsolutePath(), error.path());
            assertTrue(error.offset() >= 0);
            int damaged = 0;
            for (int i = 0; i < 5000; i++) {
                try {
                    assertEquals("value " + i, text(table.get(bytes("key " + i))));
                } catch (CorruptException e) {
                    damaged++;
                }
            }
            assertTrue(damaged > 0 && damaged < 1000, damaged + " keys");
        }
        Files.write(file, bytes("this is no table"));
        assertThrows(CorruptException.class, () -> Table.open(file));
    }

    @Test
    void approximateTables() {
        Path file = dir.resolve("approximate");
        ApproximateBuilder.Options options = ApproximateBuilder.Options.defaults().valueWidth(4)
                .fingerprintBits(12).duplicates(Duplicates.FIRST).memoryLimit(16 << 20)
                .tempDir(dir).threads(1).metadata(bytes("meta"));
        try (ApproximateBuilder builder = ApproximateBuilder.create(file, options)) {
            for (int i = 0; i < 2000; i++) {
                builder.add(bytes("key " + i), ByteBuffer.allocate(4).putInt(i).array());
            }
            builder.addAll(List.of(new Entry(bytes("key 5"), new byte[4])));
            builder.add(ByteBuffer.wrap(bytes("key 6")), ByteBuffer.allocateDirect(4));
            assertThrows(
                    IllegalArgumentException.class, () -> builder.add(bytes("a"), bytes("wide one")));
            assertEquals(2002, builder.size());
            ApproximateBuilder.Report report = builder.finish();
            assertEquals(2000, report.records());
            assertEquals(2, report.duplicates());
            assertThrows(FailedException.class, builder::finish);
        }
        try (ApproximateTable table = ApproximateTable.open(file, Access.RESIDENT)) {
            List<byte[]> keys = new ArrayList<>();
            int found = 0;
            for (int i = 0; i < 4000; i++) {
                keys.add(bytes("key " + i));
                found += table.contains(keys.get(i)) ? 1 : 0;
            }
            assertTrue(found >= 2000 && found < 2040, found + " found");
            List<byte[]> values = table.getMany(keys);
            ByteBuffer to = ByteBuffer.allocate(4);
            assertTrue(table.contains(ByteBuffer.wrap(keys.get(0))));
            assertEquals(4, table.get(ByteBuffer.wrap(keys.get(0))).length);
            for (int i = 0; i < 2000; i++) {
                assertEquals(i, ByteBuffer.wrap(values.get(i)).getInt());
                assertArrayEquals(values.get(i), table.get(keys.get(i)));
                assertEquals(4, table.get(keys.get(i), to.clear()));
                assertEquals(i, to.getInt(0));
            }
            assertEquals(2000, table.size());
            ApproximateTable.Stats stats = table.stats();
            assertEquals(4, stats.valueWidth());
            assertEquals(12, stats.fingerprintBits());
            assertEquals(1.0 / 4096, stats.falsePositives());
            assertTrue(stats.offHeapBytes() > 0);
            assertEquals(2000, table.verify().records());
            assertEquals("meta", text(table.metadata()));
            assertEquals(3, ByteBuffer.wrap(table.getAsync(bytes("key 3")).join()).getInt());
            assertEquals(file.toAbsolutePath(), table.path());
        }
        assertThrows(IllegalArgumentException.class, () -> Table.open(file));
        assertThrows(IllegalArgumentException.class, () -> ApproximateBuilder.create(
                file, ApproximateBuilder.Options.defaults().valueWidth(17)));
        assertThrows(IllegalArgumentException.class, () -> ApproximateBuilder.create(
                file, ApproximateBuilder.Options.defaults().fingerprintBits(-1)));
    }
}
