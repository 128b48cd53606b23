package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CatalogReaderTest {
    private static final CatalogReaderOptions DEFAULTS = CatalogReaderOptions.defaults();
    private static final int KEYS = 200;

    @TempDir
    Path dir;

    private Catalog catalog;
    private Path cache;

    @BeforeEach
    void create() {
        catalog = Catalog.create(dir.resolve("catalog"));
        cache = dir.resolve("cache");
    }

    @AfterEach
    void close() {
        catalog.close();
    }

    /** Publishes a table in which all values are this number. */
    private void publish(int value) {
        Path file = dir.resolve("table-" + value + ".firn");
        TableBuilder.Options options = TableBuilder.Options.defaults().threads(1);
        try (TableBuilder builder = TableBuilder.create(file, options)) {
            for (int i = 0; i < KEYS; i++) {
                builder.add(bytes("key " + i), bytes("" + value));
            }
            builder.finish();
        }
        catalog.publish("words", file);
    }

    private static String first(Generation generation) {
        return text(generation.table().get(bytes("key 0")));
    }

    private static void await(String what, BooleanSupplier condition) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, what);
            Thread.sleep(1);
        }
    }

    /** The complete files in the directory of the reader. */
    private Set<String> cached() throws Exception {
        try (Stream<Path> all = Files.list(cache)) {
            Set<String> names = new HashSet<>();
            all.map(file -> file.getFileName().toString()).filter(name -> name.endsWith(".firn"))
                    .forEach(names::add);
            return names;
        }
    }

    private Set<String> filesOf(long number) {
        return Set.of(catalog.version("words", number).files().get(0).blake3() + ".firn");
    }

    @Test
    void aReaderSwitchesWhenItIsRefreshed() {
        Instant before = Instant.now().minusSeconds(1);
        publish(1);
        try (CatalogReader reader = catalog.reader("words", cache)) {
            assertEquals("words", reader.name());
            assertEquals(cache.toAbsolutePath(), reader.cacheDir());
            assertFalse(reader.refresh());
            publish(2);
            try (Generation old = reader.current()) {
                assertEquals(1, old.number());
                assertTrue(reader.refresh());
                assertFalse(reader.refresh());
                assertEquals("1", first(old));
                try (Generation current = reader.current(); Generation same = reader.current()) {
                    assertEquals(2, current.number());
                    assertEquals("2", first(current));
                    assertSame(current.table(), current.table());
                    assertEquals(catalog.newest("words"), current.version());
                    same.table().close();
                    assertEquals("2", first(current));
                }
            }
            CatalogReader.Stats stats = reader.stats();
            assertEquals(2, stats.version());
            assertEquals(2, stats.newest());
            assertEquals(1, stats.swaps());
            assertTrue(stats.switched().isAfter(before) && !stats.switched().isAfter(Instant.now()));
            assertTrue(stats.opening().toNanos() > 0);
            assertFalse(stats.warming().isNegative());
            assertEquals(2, stats.files());
            assertTrue(stats.bytes() > 0);
            assertEquals(0, stats.failures());
            assertNull(stats.lastError());
        }
    }

    @Test
    void requestsSeeOneVersionWhileVersionsAreSwapped() throws Exception {
        publish(1);
        AtomicBoolean isOver = new AtomicBoolean();
        Set<Long> seen = ConcurrentHashMap.newKeySet();
        CatalogReaderOptions options = DEFAULTS.follow(Duration.ofMillis(2));
        ExecutorService executor = Executors.newFixedThreadPool(4);
        try (CatalogReader reader = catalog.reader("words", cache, options)) {
            List<Future<?>> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                threads.add(executor.submit(() -> readUntil(reader, seen, isOver)));
            }
            for (int value = 2; value <= 50; value++) {
                publish(value);
                long number = value;
                // Some versions come faster than the reader follows.
                if (value % 5 == 0) {
                    await("version " + number + " is not seen", () -> seen.contains(number));
                }
            }
            isOver.set(true);
            for (Future<?> thread : threads) {
                thread.get();
            }
            CatalogReader.Stats stats = reader.stats();
            assertEquals(50, stats.version());
            assertEquals(0, stats.failures(), stats.toString());
            assertEquals(filesOf(50), cached());
        } finally {
            isOver.set(true);
            executor.shutdown();
        }
    }

    /** Sends requests, each of which reads all keys from one generation, and notes its version. */
    private static void readUntil(CatalogReader reader, Set<Long> seen, AtomicBoolean isOver) {
        long last = 0;
        boolean isLast = false;
        while (!isLast) {
            isLast = isOver.get();
            try (Generation generation = reader.current()) {
                long number = generation.number();
                assertTrue(number >= last, "an older version came back");
                last = number;
                List<byte[]> keys = new ArrayList<>();
                for (int i = 0; i < KEYS; i++) {
                    keys.add(bytes("key " + i));
                    assertEquals("" + number, text(generation.table().get(keys.get(i))));
                }
                for (byte[] value : generation.table().getMany(keys)) {
                    assertEquals("" + number, text(value));
                }
                seen.add(number);
            }
        }
        assertEquals(50, last);
    }

    @Test
    void filesOfOldVersionsGoWhenTheirGenerationsAreClosed() throws Exception {
        publish(1);
        try (CatalogReader reader = catalog.reader("words", cache)) {
            assertEquals(filesOf(1), cached());
            String old = filesOf(1).iterator().next();
            Generation generation = reader.current();
            Table table = generation.table();
            publish(2);
            reader.refresh();
            // The name is gone; the contents stay as long as the generation has them open.
            assertEquals(filesOf(2), cached());
            assertEquals("1", text(table.get(bytes("key 199"))));
            assertTrue(isMapped(old));
            generation.close();
            assertFalse(isMapped(old));
            assertThrows(IllegalStateException.class, () -> table.get(bytes("key 1")));
        }
        assertEquals(filesOf(2), cached());
    }

    private static boolean isMapped(String file) throws Exception {
        Path maps = Path.of("/proc/self/maps");
        assumeTrue(Files.exists(maps), "there is no list of maps");
        try (Stream<String> lines = Files.lines(maps)) {
            return lines.anyMatch(line -> line.contains(file));
        }
    }

    @Test
    void generationsOutliveTheirReader() {
        publish(1);
        CatalogReader reader = catalog.reader("words", cache);
        Generation generation = reader.current();
        Generation unused = reader.current();
        catalog.close();
        reader.close();
        reader.close();
        assertThrows(IllegalStateException.class, reader::current);
        assertThrows(IllegalStateException.class, reader::refresh);
        assertThrows(IllegalStateException.class, reader::stats);
        assertEquals("1", first(generation));
        assertEquals("1", first(unused));
        Table table = generation.table();
        generation.close();
        generation.close();
        assertThrows(IllegalStateException.class, generation::number);
        assertThrows(IllegalStateException.class, generation::version);
        assertThrows(IllegalStateException.class, generation::table);
        assertThrows(IllegalStateException.class, generation::approximateTable);
        assertThrows(IllegalStateException.class, table::size);
        unused.close();
    }

    @Test
    void aDirectoryBelongsToOneReader() throws Exception {
        publish(1);
        CatalogReader reader = catalog.reader("words", cache);
        assertThrows(LockedException.class, () -> catalog.reader("words", cache));
        try (Generation held = reader.current()) {
            reader.close();
            // The lock ends with the reader, although a generation is open.
            catalog.reader("words", cache).close();
            assertEquals("1", first(held));
        }
        Files.createDirectory(dir.resolve("used"));
        Files.writeString(dir.resolve("used/file"), "of the user");
        assertThrows(
                AlreadyExistsException.class, () -> catalog.reader("words", dir.resolve("used")));
        assertThrows(NotFoundException.class, () -> catalog.reader("none", dir.resolve("other")));
    }

    @Test
    void oneVersionIsOpened() {
        publish(1);
        publish(2);
        try (CatalogReader reader = catalog.reader("words", cache, DEFAULTS.version(1))) {
            assertFalse(reader.refresh());
            try (Generation generation = reader.current()) {
                assertEquals("1", first(generation));
            }
        }
        assertThrows(
                NotFoundException.class,
                () -> catalog.reader("words", cache, DEFAULTS.version(3)));
    }

    @Test
    void kindsCanChange() {
        publish(1);
        CatalogReaderOptions options = DEFAULTS.access(Access.BUFFERED).threads(1)
                .warm(CatalogReaderOptions.Warm.ALL).bundleLimit(1 << 20).cacheBytes(1 << 20);
        try (CatalogReader reader = catalog.reader("words", cache, options)) {
            Tests.shards(dir.resolve("shards"), 3, 100);
            catalog.publish("words", dir.resolve("shards"));
            assertTrue(reader.refresh());
            try (Generation sharded = reader.current()) {
                assertEquals(3, sharded.shardedTable().shards());
                assertEquals("value 1", text(sharded.shardedTable().get(bytes("key 1"))));
                assertSame(sharded.shardedTable(), sharded.shardedTable());
                IllegalArgumentException error =
                        assertThrows(IllegalArgumentException.class, sharded::table);
                assertTrue(error.getMessage().contains("sharded table"), error.getMessage());
                assertThrows(IllegalArgumentException.class, sharded::approximateTable);
                assertEquals(100, sharded.shardedTable().size());
            }
            Path approximate = dir.resolve("approximate");
            try (ApproximateBuilder builder = ApproximateBuilder.create(
                    approximate, ApproximateBuilder.Options.defaults().valueWidth(1))) {
                builder.add(bytes("key"), new byte[] {7});
                builder.finish();
            }
            catalog.publish("words", approximate);
            assertTrue(reader.refresh());
            try (Generation generation = reader.current()) {
                assertEquals(7, generation.approximateTable().get(bytes("key"))[0]);
                assertTrue(generation.approximateTable().path().startsWith(cache));
                assertThrows(IllegalArgumentException.class, generation::shardedTable);
            }
        }
    }

    /** Publishes a collection with a document for each of these names. */
    private void publishCollection(String... names) {
        Schema schema = Schema.of(Field.of("name", FieldType.STRING).full());
        try (Collection collection = Collection.openOrCreate(dir.resolve("collection"));
                PartitionBuilder builder = PartitionBuilder.create(schema);
                Change change = collection.change()) {
            for (String name : names) {
                builder.add(new Document().set("name", name).payload(bytes("of " + name)));
            }
            change.put("all", builder).commit();
        }
        catalog.publish("cities", dir.resolve("collection"));
    }

    @Test
    void collectionsAreSwapped() {
        publishCollection("Oslo", "Lyon");
        try (CatalogReader reader = catalog.reader("cities", cache)) {
            Generation old = reader.current();
            CollectionReader cities = old.collection();
            assertSame(cities, old.collection());
            publishCollection("Oslo", "Lyon", "Porto");
            assertTrue(reader.refresh());
            try (Generation current = reader.current()) {
                assertEquals(Version.Kind.COLLECTION, current.version().kind());
                assertEquals(3, current.version().statistics().get("documents"));
                assertTrue(current.version().schema().contains("name"));
                assertEquals(3, current.collection().count(Filter.all()));
            }
            assertEquals(2, cities.count(Filter.all()));
            Hits hits = cities.search("order by name");
            assertEquals(List.of("Lyon", "Oslo"), hits.values("name"));
            assertEquals("of Lyon", text(hits.payloads().get(0)));
            assertThrows(IllegalArgumentException.class, old::table);
            old.close();
            assertThrows(IllegalStateException.class, () -> cities.count(Filter.all()));
            assertThrows(IllegalStateException.class, hits::payloads);
            assertThrows(IllegalStateException.class, old::collection);
        }
    }

    @Test
    void aCallbackCannotCloseItsGeneration() {
        publishCollection("Oslo", "Lyon");
        try (CatalogReader reader = catalog.reader("cities", cache)) {
            Generation generation = reader.current();
            CollectionReader cities = generation.collection();
            int[] visits = {0};
            cities.forEach(Query.select(), (all, hit) -> {
                visits[0]++;
                assertThrows(IllegalStateException.class, generation::close);
                assertEquals(2, all.count(Filter.all()));
                return true;
            });
            assertEquals(2, visits[0]);
            assertEquals(1, generation.number());
            assertSame(cities, generation.collection());
            generation.close();
            assertThrows(IllegalStateException.class, () -> cities.count(Filter.all()));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aVersionThatCannotBeOpenedIsReported(boolean following) throws Exception {
        publish(1);
        CatalogReaderOptions options = following ? DEFAULTS.follow(Duration.ofMillis(1)) : DEFAULTS;
        try (CatalogReader reader = catalog.reader("words", cache, options)) {
            // A version whose file is missing becomes visible with its manifest.
            publish(2);
            Path manifest = dir.resolve("catalog/words/versions/00000000000000000002.json");
            byte[] contents = Files.readAllBytes(manifest);
            if (following) {
                await("version 2 is not seen", () -> reader.stats().version() == 2);
            }
            Path damaged = dir.resolve("catalog/words/versions/00000000000000000003.json");
            Files.write(damaged, contents);
            if (following) {
                await("no error is reported", () -> reader.stats().lastError() != null);
            } else {
                assertThrows(CorruptException.class, reader::refresh);
            }
            CatalogReader.Stats stats = reader.stats();
            assertEquals(following ? 2 : 1, stats.version());
            assertEquals(3, stats.newest());
            assertTrue(stats.failures() > 0);
            assertTrue(stats.lastError().contains("version 2"), stats.lastError());
            try (Generation generation = reader.current()) {
                assertEquals("" + stats.version(), first(generation));
            }
            Files.delete(damaged);
            publish(3);
            if (following) {
                await("version 3 is not seen", () -> reader.stats().version() == 3);
            } else {
                assertTrue(reader.refresh());
            }
            assertNull(reader.stats().lastError());
        }
    }

    @Test
    void aReaderStartsWithoutItsCatalog() throws Exception {
        publish(1);
        catalog.reader("words", cache).close();
        Files.move(dir.resolve("catalog/words"), dir.resolve("elsewhere"));
        try (CatalogReader reader = catalog.reader("words", cache)) {
            try (Generation generation = reader.current()) {
                assertEquals("1", first(generation));
            }
            assertEquals(1, reader.stats().failures());
            assertTrue(reader.stats().lastError().contains("words"), reader.stats().lastError());
        }
    }

    @Test
    void callsDuringACloseAreRefusedOrAnswered() throws Exception {
        publish(1);
        AtomicBoolean isOver = new AtomicBoolean();
        AtomicLong answers = new AtomicLong();
        AtomicReference<CatalogReader> reader = new AtomicReference<>();
        AtomicReference<Generation> shared = new AtomicReference<>();
        ExecutorService executor = Executors.newFixedThreadPool(4);
        try {
            reader.set(catalog.reader("words", cache));
            shared.set(reader.get().current());
            List<Future<?>> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                threads.add(executor.submit(() -> callUntil(reader, shared, answers, isOver)));
            }
            for (int round = 0; round < 100; round++) {
                long before = answers.get();
                await("no call is answered", () -> answers.get() > before
                        || threads.stream().anyMatch(Future::isDone));
                shared.get().close();
                reader.get().close();
                reader.set(catalog.reader("words", cache, DEFAULTS.follow(Duration.ofMillis(1))));
                shared.set(reader.get().current());
            }
            isOver.set(true);
            for (Future<?> thread : threads) {
                thread.get();
            }
        } finally {
            isOver.set(true);
            executor.shutdown();
            shared.get().close();
            reader.get().close();
        }
    }

    /** Calls a reader and a generation that another thread closes, and counts the answers. */
    private static void callUntil(
            AtomicReference<CatalogReader> reader, AtomicReference<Generation> shared,
            AtomicLong answers, AtomicBoolean isOver) {
        for (int i = 0; !isOver.get(); i++) {
            try {
                switch (i % 4) {
                    case 0 -> assertEquals("1", first(shared.get()));
                    case 1 -> assertEquals(1, shared.get().version().number());
                    case 2 -> assertFalse(reader.get().refresh());
                    default -> {
                        try (Generation own = reader.get().current()) {
                            assertEquals("1", first(own));
                        }
                    }
                }
                answers.incrementAndGet();
            } catch (IllegalStateException e) {
                Thread.yield(); // It is closed.
            }
        }
    }

    @Test
    void aReaderThatWasNotClosedIsClosedLater() throws Exception {
        publish(1);
        String value = openAndForget();
        assertEquals("1", value);
        await("the directory stays locked", () -> {
            System.gc();
            try {
                catalog.reader("words", cache).close();
                return true;
            } catch (LockedException e) {
                return false;
            }
        });
    }

    private String openAndForget() {
        CatalogReaderOptions options = DEFAULTS.follow(Duration.ofMillis(1));
        return first(catalog.reader("words", cache, options).current());
    }

    @Test
    void closingEndsTheThread() throws Exception {
        publish(1);
        CatalogReader reader =
                catalog.reader("words", cache, DEFAULTS.follow(Duration.ofHours(1)));
        long start = System.nanoTime();
        Thread[] closers = new Thread[3];
        for (int i = 0; i < closers.length; i++) {
            closers[i] = new Thread(reader::close);
            closers[i].start();
        }
        for (Thread closer : closers) {
            closer.join();
        }
        assertTrue(System.nanoTime() - start < 30_000_000_000L);
        catalog.reader("words", cache).close();
    }

    @Test
    void wrongOptionsAreRefused() {
        for (long wrong : new long[] {-1, Long.MIN_VALUE}) {
            assertThrows(IllegalArgumentException.class, () -> DEFAULTS.version(wrong));
            assertThrows(IllegalArgumentException.class, () -> DEFAULTS.bundleLimit(wrong));
            assertThrows(IllegalArgumentException.class, () -> DEFAULTS.cacheBytes(wrong));
            assertThrows(IllegalArgumentException.class, () -> DEFAULTS.threads((int) wrong - 1));
        }
        assertThrows(IllegalArgumentException.class, () -> DEFAULTS.follow(Duration.ofDays(-1)));
        assertThrows(IllegalArgumentException.class, () -> DEFAULTS.follow(Duration.ofNanos(9)));
        publish(1);
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.reader("words", cache, DEFAULTS.cacheBytes(10)));
    }
}
