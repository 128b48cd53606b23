package io.firndb;

import static io.firndb.Tests.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Collections: what is written. */
class CollectionTest {
    private static final Schema SCHEMA = Schema.of(
            Field.of("city", FieldType.STRING).full(),
            Field.of("price", FieldType.F64).full().nullable(),
            Field.of("tags", FieldType.STRING).filterable().stored().multi());

    @TempDir
    Path dir;

    private static Document room(int i) {
        Document room = new Document().set("city", i % 2 == 0 ? "Oslo" : "Bergen")
                .payload(bytes("room " + i));
        if (i % 3 != 0) {
            room.set("price", i / 2.0);
        }
        return i % 5 == 0 ? room : room.add("tags", "t" + i % 7).add("tags", "all");
    }

    private static PartitionBuilder builder(int from, int to) {
        PartitionBuilder builder = PartitionBuilder.create(SCHEMA);
        builder.addAll(IntStream.range(from, to).mapToObj(CollectionTest::room)::iterator);
        return builder;
    }

    private static long size(Collection collection) {
        try (CollectionReader reader = collection.reader()) {
            return reader.size();
        }
    }

    /** Compares the documents of a reader, in their order, with those of {@link #room}. */
    private static void assertRooms(CollectionReader reader, int... rooms) {
        Hits hits = reader.search("all");
        assertEquals(rooms.length, hits.size());
        for (int i = 0; i < rooms.length; i++) {
            Document expected = room(rooms[i]);
            Hit hit = hits.get(i);
            assertArrayEquals(expected.payload(), hit.payload());
            for (String field : List.of("city", "price", "tags")) {
                List<Object> values = expected.values(field).stream().sorted().toList();
                assertEquals(values, hit.values(field));
            }
            // What is read is what a document takes.
            Document copy = Document.of(hits.rows("city", "price", "tags").get(i));
            assertEquals(hit.values("price"), copy.values("price"));
            assertEquals(hit.values("tags"), copy.values("tags"));
        }
    }

    private static void assertRooms(Collection collection, int... rooms) {
        try (CollectionReader reader = collection.reader()) {
            assertRooms(reader, rooms);
        }
    }

    private static int[] range(int from, int to) {
        return IntStream.range(from, to).toArray();
    }

    @Test
    void changesArePublishedAsAWhole() {
        Path path = dir.resolve("rooms");
        try (Collection collection = Collection.create(path)) {
            assertEquals(path.toAbsolutePath(), collection.path());
            long first = collection.version();
            CollectionReader empty = collection.reader();
            try (Change change = collection.change()) {
                change.put("a", builder(0, 10)).put("b", builder(10, 30));
                assertEquals(0, size(collection));
                change.commit();
                assertThrows(IllegalStateException.class, change::commit);
                assertThrows(IllegalStateException.class, () -> change.remove("a"));
            }
            assertRooms(collection, range(0, 30));
            assertEquals(first + 1, collection.version());
            try (Collection other = Collection.open(path)) {
                collection.change().remove("a").put("c", builder(0, 3)).extend("c", builder(3, 7))
                        .commit();
                assertRooms(other, range(0, 30));
                assertTrue(other.refresh());
                assertFalse(other.refresh());
                assertRooms(other, IntStream.concat(
                        IntStream.range(10, 30), IntStream.range(0, 7)).toArray());
                assertEquals(collection.version(), other.version());
            }
            collection.change().merge(List.of("c", "b"), "d").commit();
            assertRooms(collection, IntStream.concat(
                    IntStream.range(0, 7), IntStream.range(10, 30)).toArray());
            try (CollectionReader reader = collection.reader()) {
                assertEquals(List.of("d"),
                        reader.partitions().stream().map(part -> part.name()).toList());
                assertEquals(SCHEMA, reader.schema());
            }
            assertThrows(AlreadyExistsException.class,
                    () -> collection.change().put("b", builder(0, 1)).commit());
            collection.change().clear().put("b", builder(0, 1)).commit();
            assertRooms(collection, 0);
            assertEquals(0, empty.size());
            collection.close();
            assertEquals(0, empty.size());
            empty.close();
            assertThrows(IllegalStateException.class, empty::size);
            assertThrows(IllegalStateException.class, collection::reader);
        }
    }

    @Test
    void aChangeThatIsNotCommittedHasNoEffect() {
        try (Collection collection = Collection.create(dir.resolve("rooms"))) {
            collection.change().put("a", builder(0, 10)).commit();
            long version = collection.version();
            try (Change change = collection.change()) {
                change.clear();
            }
            try (Change change = collection.change()) {
                change.put("b", builder(0, 1)).remove("no such");
                NotFoundException error = assertThrows(NotFoundException.class, change::commit);
                assertTrue(error.getMessage().contains("`no such`"), error.getMessage());
            }
            assertThrows(IllegalArgumentException.class,
                    () -> collection.change().put("../b", builder(0, 1)).commit());
            assertThrows(IllegalArgumentException.class,
                    () -> collection.change().merge(List.of("a", "a"), "b").commit());
            assertThrows(NotFoundException.class,
                    () -> collection.change().extend("b", builder(0, 1)).commit());
            try (PartitionBuilder other = PartitionBuilder.create(Schema.of(
                    Field.of("city", FieldType.I64).full()))) {
                other.add(new Document().set("city", 5));
                assertThrows(IllegalArgumentException.class,
                        () -> collection.change().put("b", other).commit());
            }
            assertThrows(NullPointerException.class, () -> collection.change().remove(null));
            assertEquals(version, collection.version());
            assertEquals(10, size(collection));
        }
    }

    @Test
    void aBuilderThatIsGivenToAChangeIsUsedUp() {
        try (Collection collection = Collection.create(dir.resolve("rooms"));
                PartitionBuilder builder = builder(0, 10)) {
            assertEquals(10, builder.size());
            Change change = collection.change().put("a", builder);
            assertThrows(FailedException.class, () -> change.put("b", builder));
            assertThrows(FailedException.class, () -> builder.add(room(1)));
            assertThrows(FailedException.class, builder::size);
            assertThrows(FailedException.class, builder::schema);
            assertThrows(FailedException.class, () -> builder.write(dir.resolve("x")));
            builder.close();
            assertThrows(IllegalStateException.class, builder::size);
            assertThrows(IllegalStateException.class, () -> change.put("b", builder));
            collection.close(); // The change has what it needs.
            change.commit();
            PartitionBuilder late = builder(0, 5);
            assertThrows(IllegalStateException.class, () -> change.put("b", late));
            assertEquals(5, late.size());
            late.close();
        }
        try (Collection collection = Collection.open(dir.resolve("rooms"))) {
            assertEquals(10, size(collection));
        }
    }

    @Test
    void partitionFiles() throws IOException {
        Path first = dir.resolve("one.part.firn");
        Path second = dir.resolve("two.part.firn");
        builder(0, 4).write(first);
        builder(4, 9).write(second);
        builder(4, 10).write(second);
        try (CollectionReader reader = Collection.openFiles(List.of(first, second))) {
            assertRooms(reader, range(0, 10));
        }
        try (Collection collection = Collection.create(dir.resolve("rooms"))) {
            collection.change().putFile("a", first).extendFile("a", second).commit();
            assertRooms(collection, range(0, 10));
            assertThrows(NotFoundException.class,
                    () -> collection.change().putFile("b", dir.resolve("none")).commit());
            byte[] damaged = Files.readAllBytes(first);
            damaged[damaged.length / 2] ^= 1;
            Path third = Files.write(dir.resolve("three"), damaged);
            CorruptException error = assertThrows(CorruptException.class,
                    () -> collection.change().putFile("b", third).commit());
            assertEquals(third.toAbsolutePath(), error.path());
            assertTrue(error.offset() >= 0);
            assertEquals(10, size(collection));
        }
        assertThrows(NotFoundException.class,
                () -> Collection.openFiles(List.of(dir.resolve("none"))));
        assertThrows(IllegalArgumentException.class,
                () -> Collection.openFiles(List.of(first, first)));
        assertThrows(NotFoundException.class, () -> builder(0, 1).write(dir.resolve("no/p")));
        try (CollectionReader reader = Collection.openFiles(List.of())) {
            assertEquals(0, reader.size());
        }
    }

    @Test
    void valuesOfEveryTypeAreReadBack() {
        BigInteger most = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
        Map<FieldType, List<Object>> values = new EnumMap<>(FieldType.class);
        values.put(FieldType.BOOL, List.of(false, true));
        values.put(FieldType.I64, List.of(Long.MIN_VALUE, -1L, 0L, Long.MAX_VALUE));
        values.put(FieldType.U64, List.of(0L, Long.MAX_VALUE, BigInteger.ONE.shiftLeft(63), most));
        values.put(FieldType.F64, List.of(
                Double.NEGATIVE_INFINITY, -Double.MAX_VALUE, -0.5, 0.0, Double.MIN_VALUE, 1e300,
                Double.POSITIVE_INFINITY));
        values.put(FieldType.TIMESTAMP, List.of(
                Values.instant(Long.MIN_VALUE), Instant.EPOCH.minusNanos(1000),
                Instant.EPOCH, Instant.parse("2024-05-01T08:30:00.123456Z"),
                Values.instant(Long.MAX_VALUE)));
        values.put(FieldType.STRING, List.of("", "a", "\u00e9\0", "\ud83d\ude00"));
        values.put(FieldType.BYTES, List.of(new byte[0], new byte[] {0}, new byte[] {-1, 0}));
        List<Field> fields = new ArrayList<>();
        for (FieldType type : FieldType.values()) {
            fields.add(Field.of("one " + type, type).full().nullable());
            fields.add(Field.of("all " + type, type).filterable().stored().multi());
        }
        Schema schema = Schema.of(fields)
                .payload(Schema.Payload.zstdWithDictionary(3));
        Path file = dir.resolve("p");
        try (PartitionBuilder builder = PartitionBuilder.create(schema)) {
            for (int i = 0; i < 7; i++) {
                Document document = new Document().payload(new byte[i]);
                for (FieldType type : FieldType.values()) {
                    List<Object> all = values.get(type);
                    document.set("one " + type, i < all.size() ? all.get(i) : null);
                    document.set("all " + type, all.subList(0, Math.min(i, all.size())));
                }
                builder.add(document);
            }
            builder.write(file);
        }
        try (CollectionReader reader = Collection.openFiles(List.of(file))) {
            assertEquals(schema, reader.schema());
            Hits hits = reader.search("all");
            for (int i = 0; i < 7; i++) {
                assertEquals(i, hits.get(i).payload().length);
                for (FieldType type : FieldType.values()) {
                    List<Object> all = values.get(type);
                    Object one = i < all.size() ? all.get(i) : null;
                    assertValue(one, hits.get(i).value("one " + type));
                    List<Object> found = hits.get(i).values("all " + type);
                    assertEquals(Math.min(i, all.size()), found.size());
                    for (int n = 0; n < found.size(); n++) {
                        assertValue(all.get(n), found.get(n));
                    }
                }
            }
        }
    }

    /** Compares two values, and their classes. */
    private static void assertValue(Object expected, Object found) {
        if (expected instanceof byte[] bytes) {
            assertArrayEquals(bytes, (byte[]) found);
        } else {
            assertEquals(expected, found);
        }
    }

    @Test
    void documentsAreKeptInTheOrderOfTheSchema() {
        Schema schema = SCHEMA.orderBy(Order.asc("city"), Order.desc("price"));
        Path file = dir.resolve("p");
        try (PartitionBuilder builder = PartitionBuilder.create(schema)) {
            builder.addAll(IntStream.range(0, 10).mapToObj(CollectionTest::room)::iterator);
            builder.write(file);
        }
        try (CollectionReader reader = Collection.openFiles(List.of(file))) {
            // Documents without a price come last.
            assertRooms(reader, 7, 5, 1, 3, 9, 8, 4, 2, 0, 6);
        }
    }

    @Test
    void documentsThatDoNotFitAreRefused() {
        try (PartitionBuilder builder = PartitionBuilder.create(SCHEMA)) {
            builder.add(room(1));
            for (Document wrong : List.of(
                    new Document(), new Document().set("city", 5),
                    new Document().set("city", "x").set("town", "x"),
                    new Document().set("city", List.of("x", "y")),
                    new Document().set("city", "x").set("price", "5"),
                    new Document().set("city", "x").set("price", Double.NaN),
                    new Document().set("city", "half \ud800"))) {
                assertThrows(IllegalArgumentException.class, () -> builder.add(wrong));
                assertThrows(IllegalArgumentException.class,
                        () -> builder.addAll(List.of(room(2), wrong, room(3))));
            }
            assertEquals(8, builder.size());
            assertTrue(builder.offHeapBytes() > 0);
            assertEquals(SCHEMA, builder.schema());
        }
    }

    @Test
    void optionsOfABuilder() throws IOException {
        PartitionBuilder.Options options =
                PartitionBuilder.Options.defaults().memoryLimit(1 << 20).tempDir(dir);
        try (PartitionBuilder builder = PartitionBuilder.create(SCHEMA, options)) {
            Document document = new Document();
            Iterable<Document> reused = () -> IntStream.range(0, 100)
                    .mapToObj(i -> document.clear().set("city", "c" + i).payload(new byte[50_000]))
                    .iterator();
            builder.addAll(reused);
            assertEquals(100, builder.size());
            builder.write(dir.resolve("p"));
        }
        try (PartitionBuilder builder =
                PartitionBuilder.create(SCHEMA, options.memoryLimit(100_000))) {
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class,
                    () -> builder.addAll(IntStream.range(0, 100_000)
                            .mapToObj(i -> new Document().set("city", "city " + i))::iterator));
            assertTrue(error.getMessage().contains("memory limit"), error.getMessage());
            assertTrue(builder.size() > 100);
        }
        assertThrows(IllegalArgumentException.class, () -> options.memoryLimit(-1));
        try (Stream<Path> files = Files.list(dir)) {
            assertEquals(List.of(dir.resolve("p")), files.toList());
        }
        try (CollectionReader reader = Collection.openFiles(List.of(dir.resolve("p")))) {
            assertEquals(100, reader.size());
        }
    }

    @Test
    void threadsAddToOneBuilder() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try (PartitionBuilder builder = PartitionBuilder.create(SCHEMA)) {
            List<Future<?>> results = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                int from = t * 500;
                results.add(threads.submit(() -> {
                    IntStream.range(from, from + 250).forEach(i -> builder.add(room(i)));
                    builder.addAll(IntStream.range(from + 250, from + 500)
                            .mapToObj(CollectionTest::room)::iterator);
                }));
            }
            for (Future<?> result : results) {
                result.get();
            }
            builder.write(dir.resolve("p"));
        } finally {
            threads.shutdownNow();
        }
        try (CollectionReader reader = Collection.openFiles(List.of(dir.resolve("p")))) {
            assertEquals(2000, reader.search("all").payloads().stream()
                    .map(Tests::text).distinct().count());
        }
    }

    @Test
    void dynamicSchemasGrow() {
        Schema schema = Schema.dynamic(Role.FILTERABLE, Role.STORED)
                .add(Field.of("id", FieldType.I64).full());
        try (PartitionBuilder builder = PartitionBuilder.create(schema)) {
            builder.add(new Document().set("id", 1).set("name", "a"));
            builder.add(new Document().set("id", 2).add("size", 1.5).add("size", 2.5));
            Field name = Field.of("name", FieldType.STRING).filterable().stored().multi();
            Field size = Field.of("size", FieldType.F64).filterable().stored().multi();
            assertEquals(List.of(name, size), builder.schema().fields().subList(1, 3));
            assertThrows(IllegalArgumentException.class,
                    () -> builder.add(new Document().set("id", 3).set("name", 7)));
        }
    }

    @Test
    void directoriesThatAreNoCollections() throws IOException {
        Path path = dir.resolve("rooms");
        assertThrows(NotFoundException.class, () -> Collection.open(path));
        try (Collection created = Collection.openOrCreate(path)) {
            created.change().put("a", builder(0, 3)).commit();
        }
        assertThrows(AlreadyExistsException.class, () -> Collection.create(path));
        try (Collection opened = Collection.openOrCreate(path)) {
            assertEquals(3, size(opened));
        }
        Path other = Files.createDirectory(dir.resolve("other"));
        Files.write(other.resolve("notes.txt"), bytes("mine"));
        AlreadyExistsException error = assertThrows(
                AlreadyExistsException.class, () -> Collection.openOrCreate(other));
        assertTrue(error.getMessage().contains("notes.txt"), error.getMessage());
        Path set;
        try (Stream<Path> files = Files.list(path)) {
            set = files.filter(file -> file.toString().endsWith(".part.firn")).findFirst().get();
        }
        Files.write(set, bytes("no partition"));
        CorruptException corrupt =
                assertThrows(CorruptException.class, () -> Collection.open(path));
        assertEquals(set.toAbsolutePath(), corrupt.path());
    }

    @Test
    void smallPartitionsAreMerged() {
        try (Collection collection = Collection.create(dir.resolve("rooms"))) {
            Change change = collection.change();
            for (int i = 0; i < 6; i++) {
                change.put("p" + i, builder(i * 10, i * 10 + 10));
            }
            change.commit();
            Collection.MergePolicy defaults = Collection.MergePolicy.defaults();
            assertEquals(List.of(), collection.compactPlan(defaults));
            Collection.MergePolicy policy = defaults.unchangedFor(Duration.ZERO);
            Collection.Merge all = new Collection.Merge(
                    List.of("p0", "p1", "p2", "p3", "p4", "p5"), "p0.to.p5", 60);
            assertEquals(List.of(all), collection.compactPlan(policy));
            assertEquals(List.of(), collection.compactPlan(policy.small(10)));
            assertEquals(List.of(), collection.compactPlan(policy.atLeast(7)));
            assertEquals(List.of(), collection.compactPlan(policy.mostBytes(100)));
            assertEquals(2, collection.compactPlan(policy.mostDocuments(30).atLeast(3)).size());
            assertEquals(List.of(all), collection.compact(policy));
            assertEquals(List.of(), collection.compact(policy));
            assertRooms(collection, range(0, 60));
            assertThrows(IllegalArgumentException.class, () -> defaults.small(-1));
            assertThrows(IllegalArgumentException.class,
                    () -> defaults.unchangedFor(Duration.ofSeconds(-1)));
        }
    }

    @Test
    void threadsReadWhileOthersChangeAndClose() throws Exception {
        Path path = dir.resolve("rooms");
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (Collection collection = Collection.create(path)) {
            List<Future<Integer>> results = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                results.add(threads.submit(() -> {
                    for (int i = 0; ; i++) {
                        try {
                            assertEquals(0, size(collection) % 10);
                        } catch (IllegalStateException e) {
                            return i;
                        }
                    }
                }));
            }
            for (int t = 0; t < 4; t++) {
                String name = "p" + t;
                results.add(threads.submit(() -> {
                    for (int i = 0; ; i++) {
                        try (PartitionBuilder builder = builder(0, 10)) {
                            collection.change().put(name, builder).commit();
                        } catch (IllegalStateException e) {
                            return i;
                        }
                    }
                }));
            }
            Thread.sleep(300);
            collection.close();
            for (Future<Integer> result : results) {
                assertTrue(result.get() > 0);
            }
        } finally {
            threads.shutdownNow();
        }
        try (Collection collection = Collection.open(path)) {
            assertEquals(40, size(collection));
        }
    }
}
