package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogStoreTest {
    @TempDir
    Path dir;

    private LogStore open() {
        return LogStore.open(dir.resolve("store"));
    }

    /** A buffer of some kind with a value between other bytes. */
    private static List<ByteBuffer> buffers(byte[] value) {
        byte[] wide = new byte[value.length + 7];
        System.arraycopy(value, 0, wide, 3, value.length);
        ByteBuffer heap = ByteBuffer.wrap(wide, 3, value.length);
        ByteBuffer slice = ByteBuffer.wrap(wide, 2, value.length + 3).slice();
        slice.position(1).limit(1 + value.length);
        ByteBuffer direct = ByteBuffer.allocateDirect(wide.length);
        direct.put(wide).position(3).limit(3 + value.length);
        return List.of(heap, slice, direct, heap.asReadOnlyBuffer(), direct.asReadOnlyBuffer());
    }

    @Test
    void putGetDelete() {
        try (LogStore store = open()) {
            assertNull(store.get(bytes("a")));
            store.put(bytes("a"), bytes("1"));
            store.put(bytes(""), bytes(""));
            assertEquals("1", text(store.get(bytes("a"))));
            assertArrayEquals(new byte[0], store.get(new byte[0]));
            assertTrue(store.contains(bytes("a")));
            assertFalse(store.contains(bytes("b")));
            assertEquals(1, store.valueLength(bytes("a")));
            assertEquals(-1, store.valueLength(bytes("b")));
            assertEquals(2, store.size());
            assertTrue(store.delete(bytes("a")));
            assertFalse(store.delete(bytes("a")));
            assertEquals(1, store.size());
        }
        try (LogStore store = open()) {
            assertArrayEquals(new byte[0], store.get(new byte[0]));
            assertEquals(dir.resolve("store").toAbsolutePath(), store.path());
        }
    }

    @Test
    void valuesAndKeysOfAllLengths() {
        Random random = new Random(7);
        Map<Integer, byte[]> values = new HashMap<>();
        try (LogStore store = open()) {
            for (int length : new int[] {0, 1, 127, 128, 129, 4096, 65_536, 3_000_000}) {
                byte[] value = new byte[length];
                random.nextBytes(value);
                byte[] key = new byte[Math.min(length, 65_536)];
                store.put(key, value);
                values.put(key.length, value);
            }
            values.forEach((length, value) -> assertArrayEquals(value, store.get(new byte[length])));
            byte[] tooLong = new byte[65_537];
            assertNull(store.get(tooLong));
            assertThrows(IllegalArgumentException.class, () -> store.put(tooLong, tooLong));
        }
    }

    @Test
    void buffersOfAllKinds() {
        byte[] key = bytes("the key");
        byte[] value = bytes("the value");
        try (LogStore store = open()) {
            for (ByteBuffer k : buffers(key)) {
                for (ByteBuffer v : buffers(value)) {
                    int[] before = {k.position(), k.limit(), v.position(), v.limit()};
                    store.put(k, v);
                    int[] after = {k.position(), k.limit(), v.position(), v.limit()};
                    assertArrayEquals(before, after);
                    assertArrayEquals(value, store.get(k));
                    assertTrue(store.contains(k));
                    assertTrue(store.delete(k, WriteOptions.defaults()));
                    assertFalse(store.contains(k));
                }
            }
            store.put(key, value);
            for (ByteBuffer k : buffers(key)) {
                for (ByteBuffer to : List.of(
                        ByteBuffer.allocate(20), ByteBuffer.allocateDirect(20),
                        ByteBuffer.allocate(30).position(4).slice())) {
                    to.position(5);
                    assertEquals(value.length, store.get(k, to));
                    assertEquals(5 + value.length, to.position());
                    to.flip().position(5);
                    byte[] found = new byte[to.remaining()];
                    to.get(found);
                    assertArrayEquals(value, found);
                }
            }
        }
    }

    @Test
    void aValueThatDoesNotFitLeavesTheBuffer() {
        try (LogStore store = open()) {
            store.put(bytes("k"), bytes("value"));
            for (ByteBuffer to : List.of(ByteBuffer.allocate(4), ByteBuffer.allocateDirect(4))) {
                assertEquals(5, store.get(bytes("k"), to));
                assertEquals(0, to.position());
                assertEquals(0, to.get(0));
                assertEquals(-1, store.get(bytes("absent"), to));
                assertThrows(
                        ReadOnlyBufferException.class,
                        () -> store.get(bytes("k"), to.asReadOnlyBuffer()));
            }
            ByteBuffer exact = ByteBuffer.allocate(5);
            assertEquals(5, store.get(bytes("k"), exact));
            assertEquals(0, exact.remaining());
        }
    }

    @Test
    void aGetIntoABufferAllocatesNothing() {
        var threads = (com.sun.management.ThreadMXBean)
                java.lang.management.ManagementFactory.getThreadMXBean();
        long thread = Thread.currentThread().getId();
        try (LogStore store = open()) {
            byte[] key = bytes("k");
            store.put(key, new byte[100]);
            for (ByteBuffer to : List.of(ByteBuffer.allocate(100), ByteBuffer.allocateDirect(100))) {
                long least = Long.MAX_VALUE;
                for (int round = 0; round < 5; round++) {
                    long before = threads.getThreadAllocatedBytes(thread);
                    for (int i = 0; i < 1000; i++) {
                        store.get(key, to.clear());
                    }
                    least = Math.min(least, threads.getThreadAllocatedBytes(thread) - before);
                }
                // What the measurement itself allocates.
                assertTrue(least < 1000, least + " bytes in 1,000 gets");
            }
        }
    }

    @Test
    void getMany() {
        try (LogStore store = open()) {
            List<byte[]> keys = new ArrayList<>();
            for (int i = 0; i < 3000; i++) {
                keys.add(bytes("key " + i));
                if (i % 3 != 0) {
                    store.put(bytes("key " + i), bytes("value " + i));
                }
            }
            keys.add(new byte[0]);
            store.put(new byte[0], new byte[0]);
            try (Snapshot snapshot = store.snapshot()) {
                store.put(bytes("key 0"), bytes("new"));
                for (List<byte[]> values : List.of(store.getMany(keys), snapshot.getMany(keys))) {
                    assertEquals(3001, values.size());
                    for (int i = 1; i < 3000; i++) {
                        assertEquals(i % 3 == 0 ? null : "value " + i, text(values.get(i)));
                    }
                    assertArrayEquals(new byte[0], values.get(3000));
                }
                assertNull(snapshot.getMany(keys).get(0));
            }
            assertEquals("new", text(store.getMany(keys).get(0)));
            assertEquals(List.of(), store.getMany(List.of()));
        }
    }

    @Test
    void getManyOfLargeValuesIsDividedIntoCalls() {
        try (LogStore store = open()) {
            List<byte[]> keys = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                byte[] value = new byte[30 << 20];
                value[i] = 1;
                keys.add(bytes("key " + i));
                store.put(keys.get(i), value);
            }
            keys.add(2, bytes("absent"));
            List<byte[]> values = store.getMany(keys);
            assertNull(values.get(2));
            for (int i = 0; i < 5; i++) {
                byte[] value = values.get(i < 2 ? i : i + 1);
                assertEquals(30 << 20, value.length);
                assertEquals(1, value[i]);
            }
        }
    }

    @Test
    void batchesAreAtomic() {
        try (LogStore store = open()) {
            store.put(bytes("c"), bytes("3"));
            Batch batch = new Batch().put(bytes("a"), bytes("1")).put(bytes("b"), bytes("2"))
                    .delete(bytes("c"));
            assertEquals(3, batch.size());
            store.write(batch, WriteOptions.sync());
            assertEquals("1", text(store.get(bytes("a"))));
            assertNull(store.get(bytes("c")));
            assertEquals(0, batch.clear().size());
            batch.put(bytes("x"), bytes("1")).put(new byte[70_000], bytes("2"));
            assertThrows(IllegalArgumentException.class, () -> store.write(batch));
            assertNull(store.get(bytes("x")));
        }
    }

    @Test
    void expiry() throws InterruptedException {
        Instant later = Instant.now().plusSeconds(3600).truncatedTo(java.time.temporal.ChronoUnit.MILLIS);
        try (LogStore store = open()) {
            store.put(bytes("a"), bytes("1"), WriteOptions.defaults().expiry(later));
            assertEquals(later, store.expiry(bytes("a")));
            store.append(bytes("a"), bytes("2"));
            store.update(bytes("a"), old -> bytes(text(old) + "3"));
            assertEquals("123", text(store.get(bytes("a"))));
            assertEquals(later, store.expiry(bytes("a")));
            assertEquals(later, store.getVersioned(bytes("a")).expiry());
            assertTrue(store.setExpiry(bytes("a"), Instant.MAX));
            assertEquals(Instant.MAX, store.expiry(bytes("a")));
            assertNull(store.expiry(bytes("absent")));
            assertFalse(store.setExpiry(bytes("absent"), later));
            store.put(bytes("a"), bytes("1"), Duration.ofMillis(1));
            store.write(new Batch().put(bytes("b"), bytes("1"), Duration.ZERO)
                    .put(bytes("c"), bytes("1"), later).put(bytes("d"), bytes("1"), Instant.MAX)
                    .put(bytes("e"), bytes("1")), WriteOptions.defaults().ttl(Duration.ofHours(9)));
            Thread.sleep(5);
            assertNull(store.get(bytes("a")));
            assertNull(store.get(bytes("b")));
            assertEquals(later, store.expiry(bytes("c")));
            assertEquals(Instant.MAX, store.expiry(bytes("d")));
            assertTrue(store.expiry(bytes("e")).isAfter(later));
            store.put(bytes("f"), bytes("1"), WriteOptions.defaults().expiry(Instant.MIN));
            assertNull(store.get(bytes("f")));
            WriteOptions farAway = WriteOptions.defaults().ttl(Duration.ofSeconds(Long.MAX_VALUE));
            store.put(bytes("g"), bytes("1"), farAway);
            assertTrue(store.contains(bytes("g")));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> WriteOptions.defaults().ttl(Duration.ofMillis(-1)));
        }
    }

    @Test
    void compareAndSet() {
        try (LogStore store = open()) {
            byte[] key = bytes("k");
            assertTrue(store.putIfAbsent(key, bytes("1")));
            assertFalse(store.putIfAbsent(key, bytes("2")));
            assertFalse(store.compareAndSet(key, bytes("2"), bytes("3")));
            assertTrue(store.compareAndSet(key, bytes("1"), bytes("3")));
            assertFalse(store.compareAndSet(key, null, bytes("4")));
            assertEquals("3", text(store.get(key)));
            assertTrue(store.compareAndSet(key, bytes("3"), null));
            assertNull(store.get(key));
            assertEquals(2, store.append(key, bytes("ab"), WriteOptions.sync()));
        }
    }

    @Test
    void writeIf() {
        try (LogStore store = open()) {
            store.put(bytes("a"), bytes("1"));
            Versioned a = store.getVersioned(bytes("a"));
            assertNull(store.getVersioned(bytes("b")));
            Conditions unchanged =
                    new Conditions().version(bytes("a"), a.version()).absent(bytes("b"));
            assertTrue(store.writeIf(unchanged, new Batch().put(bytes("b"), bytes("2"))));
            assertFalse(store.writeIf(unchanged, new Batch().put(bytes("c"), bytes("3"))));
            assertNull(store.get(bytes("c")));
            assertTrue(store.writeIf(new Conditions(), new Batch()));
        }
    }

    @Test
    void updatesOfManyThreads() throws InterruptedException {
        try (LogStore store = open()) {
            byte[] key = bytes("count");
            Thread[] threads = new Thread[4];
            for (int t = 0; t < threads.length; t++) {
                threads[t] = new Thread(() -> {
                    for (int i = 0; i < 500; i++) {
                        store.update(key, old -> bytes(
                                String.valueOf(old == null ? 1 : Integer.parseInt(text(old)) + 1)));
                    }
                });
                threads[t].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals("2000", text(store.get(key)));
            assertNull(store.update(key, old -> null));
            assertFalse(store.contains(key));
            assertNull(store.update(key, old -> null));
            RuntimeException own = new RuntimeException("mine");
            assertEquals(own, assertThrows(RuntimeException.class, () -> store.update(key, old -> {
                throw own;
            })));
            // A function that closes the store makes the update fail.
            assertThrows(IllegalStateException.class, () -> store.update(key, old -> {
                store.close();
                return key;
            }));
        }
    }

    private static Map<String, String> collect(Stream<Entry> records) {
        try (records) {
            return records.collect(Collectors.toMap(
                    entry -> text(entry.key()), entry -> text(entry.value()), (a, b) -> a,
                    TreeMap::new));
        }
    }

    @Test
    void iteratorsStreamsAndSnapshots() {
        try (LogStore store = open()) {
            Map<String, String> expected = new TreeMap<>();
            for (int i = 0; i < 20_000; i++) {
                expected.put("key " + i, "some value " + i);
                store.put(bytes("key " + i), bytes("some value " + i));
            }
            Snapshot snapshot = store.snapshot();
            EntryIterator early = store.iterator();
            store.put(bytes("key 1"), bytes("changed"));
            store.delete(bytes("key 2"));
            assertEquals(expected, collect(snapshot.stream()));
            assertEquals(expected, collect(early.stream()));
            assertFalse(early.hasNext());
            assertThrows(NoSuchElementException.class, early::next);
            assertEquals("some value 1", text(snapshot.get(bytes("key 1"))));
            assertTrue(snapshot.contains(bytes("key 2")));
            assertEquals(Instant.MAX, snapshot.expiry(bytes("key 2")));
            assertNull(snapshot.get(bytes("absent")));
            ByteBuffer to = ByteBuffer.allocateDirect(20);
            assertEquals(12, snapshot.get(bytes("key 1"), to));
            assertEquals(12, to.position());
            assertEquals(12, snapshot.get(ByteBuffer.wrap(bytes("key 1")), to)); // Does not fit.
            assertEquals(12, to.position());
            assertEquals("some value 1", text(snapshot.getAsync(bytes("key 1")).join()));
            expected.put("key 1", "changed");
            expected.remove("key 2");
            assertEquals(expected, collect(store.stream()));
            try (Stream<Entry> some = store.stream()) {
                assertEquals(10, some.limit(10).count());
            }
            EntryIterator late = snapshot.iterator();
            snapshot.close();
            snapshot.close();
            assertThrows(IllegalStateException.class, () -> snapshot.get(bytes("a")));
            store.close();
            assertTrue(late.hasNext());
            late.next();
            late.close();
            assertFalse(late.hasNext());
        }
    }

    @Test
    void scans() {
        try (LogStore store = open()) {
            for (int i = 0; i < 1000; i++) {
                store.put(bytes("key " + i), bytes("value " + i));
            }
            Map<String, String> found = new HashMap<>();
            int pages = 0;
            for (long cursor = 0; cursor >= 0; pages++) {
                ScanPage page = store.scan(cursor, 50);
                for (Entry entry : page.entries()) {
                    assertNull(found.put(text(entry.key()), text(entry.value())));
                }
                cursor = page.next();
            }
            assertEquals(1000, found.size());
            assertTrue(pages >= 20 && pages < 1000);
            assertThrows(IllegalArgumentException.class, () -> store.scan(-1, 10));
        }
    }

    @Test
    void readersRefresh() {
        try (LogStore store = open();
                LogStore reader = LogStore.openReadOnly(store.path())) {
            store.put(bytes("a"), bytes("1"));
            assertNull(reader.get(bytes("a")));
            assertTrue(reader.refresh());
            assertFalse(reader.refresh());
            assertEquals("1", text(reader.get(bytes("a"))));
            assertThrows(
                    IllegalArgumentException.class, () -> reader.put(bytes("a"), bytes("2")));
        }
    }

    @Test
    void aReaderTakesOverFromTheWriter() {
        try (LogStore store = open();
                LogStore reader = LogStore.openReadOnly(store.path())) {
            store.put(bytes("a"), bytes("1"));
            assertThrows(LockedException.class, reader::promote);
            store.close();
            reader.promote();
            reader.put(bytes("b"), bytes("2"));
            assertEquals("1", text(reader.get(bytes("a"))));
            assertEquals(2, reader.size());
        }
    }

    @Test
    void maintenanceAndStatistics() {
        LogOptions options = LogOptions.defaults().segmentBytes(1 << 16)
                .compactionThreshold(0.9).background(false).durability(Durability.SYNC)
                .appendMode(AppendMode.WRITE).access(Access.BUFFERED).checkpointBytes(1 << 20)
                .compactionRate(1 << 30);
        try (LogStore store = LogStore.open(dir.resolve("store"), options)) {
            for (int i = 0; i < 3000; i++) {
                WriteOptions quick = WriteOptions.defaults().durability(Durability.OS);
                store.put(bytes("key " + i % 300), new byte[100], quick);
            }
            store.sync();
            while (store.maintain()) {
                assertTrue(store.size() <= 300);
            }
            LogStats before = store.stats();
            assertEquals(300, before.keys());
            assertEquals(3000, before.puts());
            assertEquals(AppendMode.WRITE, before.appendMode());
            assertEquals(before.segments(), before.segmentStats().size());
            assertTrue(before.syncs() > 0 && before.seconds() > 0 && before.offHeapBytes() > 0);
            assertTrue(before.segmentStats().stream().anyMatch(s -> s.staleShare() > 0.5));
            assertTrue(store.compact(0.1) > 0);
            assertTrue(store.stats().diskBytes() < before.diskBytes());
            assertTrue(store.stats().segmentsRemoved() > 0);
            store.pauseCompaction();
            store.resumeCompaction();
            Verification verified = store.verify();
            assertTrue(verified.records() >= 300 && verified.files() > 0 && verified.bytes() > 0);
        }
    }

    @Test
    void backupRestoreRepair() {
        Path backup = dir.resolve("backup");
        try (LogStore store = open()) {
            store.put(bytes("a"), bytes("1"));
            LogStore.Backup made = store.backup(backup);
            assertEquals(0, made.kept() + made.copied());
            assertTrue(store.backup(backup).kept() > 0);
            assertThrows(AlreadyExistsException.class, () -> store.backup(store.path()));
        }
        LogStore.Restored restored = LogStore.restore(backup, dir.resolve("restored"));
        assertEquals(1, restored.keys());
        LogStore.Repaired repaired = LogStore.repair(backup, dir.resolve("repaired"));
        assertEquals(1, repaired.keys());
        assertTrue(repaired.records() >= 1);
        assertEquals(0, repaired.droppedBytes());
        for (String name : List.of("restored", "repaired")) {
            try (LogStore store = LogStore.open(dir.resolve(name))) {
                assertEquals("1", text(store.get(bytes("a"))));
            }
        }
    }

    @Test
    void errorsHaveKindAndPath() throws Exception {
        NotFoundException absent = assertThrows(
                NotFoundException.class, () -> LogStore.openReadOnly(dir.resolve("none")));
        assertEquals(ErrorKind.NOT_FOUND, absent.kind());
        assertTrue(absent.path().startsWith(dir), absent.toString());
        LogOptions noCreation = LogOptions.defaults().create(false);
        assertThrows(
                NotFoundException.class, () -> LogStore.open(dir.resolve("none"), noCreation));
        assertThrows(IllegalArgumentException.class, () ->
                LogStore.open(dir.resolve("x"), LogOptions.defaults().segmentBytes(1)));
        assertThrows(IllegalArgumentException.class, () ->
                LogStore.open(dir.resolve("x"), LogOptions.defaults().segmentBytes(-1)));
        assertThrows(IllegalArgumentException.class, () ->
                LogOptions.defaults().access(Access.RESIDENT));
        try (LogStore store = open()) {
            assertThrows(LockedException.class, this::open);
            assertThrows(NullPointerException.class, () -> store.get((byte[]) null));
            assertThrows(NullPointerException.class, () -> store.put(bytes("a"), (byte[]) null));
            assertThrows(NullPointerException.class, () -> store.putIfAbsent(bytes("a"), null));
        }
    }

    /** Changes a byte of the text, in the file of the store that has it. Returns that file. */
    private Path damage(String text) throws Exception {
        try (Stream<Path> files = Files.walk(dir.resolve("store"))) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                int at = new String(Files.readAllBytes(file), ISO_8859_1).indexOf(text);
                if (at >= 0) {
                    try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
                        out.seek(at);
                        out.write('X');
                    }
                    return file;
                }
            }
        }
        throw new AssertionError("no file has the text");
    }

    @Test
    void damageIsReportedWithFileAndOffset() throws Exception {
        try (LogStore store = open()) {
            for (int i = 0; i < 100; i++) {
                store.put(bytes("key " + i), bytes("a value to be damaged " + i));
            }
        }
        LogOptions checkAll =
                LogOptions.defaults().readOnly(true).access(Access.BUFFERED);
        try (LogStore store = LogStore.open(dir.resolve("store"), checkAll)) {
            Path damaged = damage("to be damaged 42");
            CorruptException error =
                    assertThrows(CorruptException.class, () -> store.get(bytes("key 42")));
            assertEquals(damaged, error.path());
            assertTrue(error.offset() > 0);
            assertThrows(CorruptException.class, store::verify);
            assertEquals("a value to be damaged 41", text(store.get(bytes("key 41"))));
            assertThrows(
                    CorruptException.class,
                    () -> store.getMany(List.of(bytes("key 41"), bytes("key 42"))));
            assertThrows(CorruptException.class, () -> {
                try (Stream<Entry> records = store.stream()) {
                    records.forEach(entry -> assertTrue(entry.key().length > 0));
                }
            });
            CorruptException opening = assertThrows(CorruptException.class, this::open);
            assertEquals(damaged, opening.path());
        }
    }

    @Test
    void callsOfAClosedStoreAreRefused() {
        LogStore store = open();
        EntryIterator records = store.iterator();
        store.close();
        store.close();
        IllegalStateException closed =
                assertThrows(IllegalStateException.class, () -> store.get(bytes("a")));
        assertEquals("the log store is closed", closed.getMessage());
        assertThrows(IllegalStateException.class, () -> store.put(bytes("a"), bytes("b")));
        assertThrows(IllegalStateException.class, store::size);
        assertThrows(IllegalStateException.class, store::stats);
        assertThrows(IllegalStateException.class, store::iterator);
        assertThrows(IllegalStateException.class, store::snapshot);
        assertFalse(records.hasNext());
    }

    @Test
    void aStoreThatWasNotClosedIsClosedAsALeak() {
        leak();
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (true) {
            System.gc();
            try (LogStore store = open()) {
                assertEquals("1", text(store.get(bytes("a"))));
                return;
            } catch (LockedException e) {
                assertTrue(System.nanoTime() < end, "the store stays open");
            }
        }
    }

    private void leak() {
        open().put(bytes("a"), bytes("1"));
    }
}
