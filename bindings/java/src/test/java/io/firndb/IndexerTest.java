package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class IndexerTest {
    private static final Schema SCHEMA = Schema.of(
            Field.of("city", FieldType.STRING).full(),
            Field.of("price", FieldType.F64).full().nullable());
    private static final Partitioning BY_CITY = Partitioning.byField("city");

    @TempDir
    Path dir;

    private static Document room(String city, String payload) {
        return new Document().set("city", city).payload(bytes(payload));
    }

    private Indexer index() {
        return Indexer.open(dir.resolve("index"), SCHEMA, BY_CITY);
    }

    /** The payloads of all documents, and their cities, in order. */
    private static List<String> rooms(CollectionReader reader) {
        List<String> rooms = new ArrayList<>();
        for (Hit hit : reader.search("all")) {
            rooms.add(text(hit.payload()) + " in " + hit.value("city"));
        }
        return rooms.stream().sorted().toList();
    }

    private static List<String> rooms(Indexer index) {
        try (CollectionReader reader = index.reader()) {
            return rooms(reader);
        }
    }

    @Test
    void feedsAreAppliedAsAWholeAndPublished() {
        try (Indexer index = index()) {
            assertEquals(dir.resolve("index").toAbsolutePath(), index.path());
            assertEquals(SCHEMA, index.schema());
            assertEquals(BY_CITY, index.partitioning());
            assertFalse(index.isRemade());
            Indexer.Applied applied;
            try (Feed feed = index.feed("rooms")) {
                feed.add("room 1", room("Oslo", "one"));
                feed.add(bytes("room 2"), room("Bergen", "two"));
                feed.add("room 2", room("Bergen", "three"));
                applied = feed.finish();
                assertThrows(IllegalStateException.class, feed::finish);
                assertThrows(
                        IllegalStateException.class, () -> feed.add("a", room("Oslo", "a")));
            }
            assertEquals(
                    new Indexer.Applied(2, 0, 0, 0, 1, List.of("Bergen", "Oslo")), applied);
            assertEquals(List.of(), rooms(index));
            Indexer.Publication published = index.publish();
            assertEquals(List.of("Bergen", "Oslo"), published.rebuilt());
            assertEquals(List.of(), published.removed());
            assertEquals(2, published.documents());
            assertTrue(published.bytes() > 0);
            assertEquals(List.of("one in Oslo", "three in Bergen"), rooms(index));
            assertEquals(
                    new Indexer.Publication(
                            published.version(), List.of(), List.of(), 0, 0, Optional.empty()),
                    index.publish());

            List<KeyedDocument> second = List.of(
                    new KeyedDocument("room 1", room("Oslo", "one")),
                    new KeyedDocument(bytes("room 3"), room("Oslo", "new")));
            assertEquals(
                    new Indexer.Applied(1, 0, 1, 1, 0, List.of("Bergen", "Oslo")),
                    index.apply("rooms", second));
            published = index.publish();
            assertEquals(List.of("Oslo"), published.rebuilt());
            assertEquals(List.of("Bergen"), published.removed());
            try (Collection collection = index.collection();
                    CollectionReader reader = collection.reader()) {
                assertEquals(List.of("new in Oslo", "one in Oslo"), rooms(reader));
                assertEquals(published.version(), collection.version());
                assertThrows(IllegalArgumentException.class, collection::change);
            }
        }
        try (Indexer index = Indexer.openExisting(dir.resolve("index"))) {
            assertEquals(SCHEMA, index.schema());
            assertEquals(List.of("new in Oslo", "one in Oslo"), rooms(index));
        }
    }

    @Test
    void singleChanges() {
        try (Indexer index = index()) {
            assertTrue(index.upsert("rooms", "1", room("Oslo", "one")));
            assertFalse(index.upsert("rooms", bytes("1"), room("Oslo", "one")));
            assertTrue(index.upsert("rooms", "1", room("Bergen", "one")));
            assertFalse(index.delete("rooms", "2"));
            try (Feed changes = index.changes("rooms")) {
                changes.add("2", room("Oslo", "two"));
                changes.addAll(List.of(new KeyedDocument("3", room("Oslo", "three"))));
                changes.remove("1");
                changes.remove(bytes("no such"));
                ByteBuffer key = ByteBuffer.wrap(bytes("the key"), 4, 3);
                changes.add(key, room("Oslo", "five"));
                changes.remove(key);
                assertEquals(4, key.position());
                Indexer.Applied applied = changes.finish();
                assertEquals(3, applied.added());
                assertEquals(1, applied.removed());
                assertEquals(1, applied.unchanged());
                assertEquals(1, applied.repeated());
            }
            assertTrue(index.delete("rooms", bytes("3")));
            ByteBuffer four = ByteBuffer.allocateDirect(1).put((byte) '4').flip();
            assertTrue(index.upsert("rooms", four, room("Oslo", "four")));
            assertFalse(index.upsert("rooms", "4", room("Oslo", "four")));
            assertTrue(index.delete("rooms", four.asReadOnlyBuffer()));
            assertFalse(index.delete("rooms", four));
            index.publish();
            assertEquals(List.of("two in Oslo"), rooms(index));
            Indexer.Status status = index.status();
            assertEquals(Map.of("rooms", 1L), status.sources());
            assertEquals(List.of(), status.dirty());
            assertEquals(1, status.partitions());
            assertEquals(1, status.documents());
            assertTrue(status.bytes() > 0 && status.logBytes() > 0 && status.version() > 0);
            index.upsert("other", "9", room("Molde", "nine"));
            status = index.status();
            assertEquals(List.of("Molde"), status.dirty());
            assertEquals(List.of("other", "rooms"), List.copyOf(status.sources().keySet()));
        }
    }

    @Test
    void aFeedThatIsNotFinishedHasNoEffect() {
        try (Indexer index = index()) {
            index.upsert("rooms", "1", room("Oslo", "one"));
            index.publish();
            try (Feed feed = index.feed("rooms")) {
                feed.add("2", room("Oslo", "two"));
                LockedException locked =
                        assertThrows(LockedException.class, () -> index.feed("rooms"));
                assertEquals(index.path(), locked.path());
                for (Runnable call : List.<Runnable>of(
                        index::publish, index::status, index::partitioning,
                        () -> index.upsert("rooms", "3", room("Oslo", "three")),
                        () -> index.delete("rooms", "1"), () -> index.repartition(BY_CITY),
                        () -> index.backup(dir.resolve("backup")))) {
                    assertThrows(LockedException.class, call::run);
                }
                assertEquals(List.of("one in Oslo"), rooms(index));
            }
            assertEquals(Map.of("rooms", 1L), index.status().sources());
            Feed open = index.feed("rooms");
            index.close();
            assertThrows(IllegalStateException.class, () -> open.add("2", room("Oslo", "2")));
            assertThrows(IllegalStateException.class, open::finish);
            open.close();
            assertThrows(IllegalStateException.class, index::publish);
            assertThrows(IllegalStateException.class, index::reader);
        }
        try (Indexer index = index()) {
            assertEquals(Map.of("rooms", 1L), index.status().sources());
        }
    }

    @Test
    void documentsThatDoNotFitAreRefused() {
        try (Indexer index = index(); Feed feed = index.feed("rooms")) {
            for (Document wrong : List.of(
                    new Document(), new Document().set("city", 5), room("Oslo", "").set("x", 1),
                    room("half \udc00", ""))) {
                assertThrows(IllegalArgumentException.class, () -> feed.add("1", wrong));
                assertThrows(IllegalArgumentException.class, () -> feed.addAll(List.of(
                        new KeyedDocument("2", room("Oslo", "two")),
                        new KeyedDocument("1", wrong))));
            }
            Document right = room("Oslo", "one");
            assertThrows(IllegalArgumentException.class, () -> feed.add("", right));
            assertThrows(
                    IllegalArgumentException.class, () -> feed.add(new byte[65_536], right));
            assertThrows(IllegalArgumentException.class, () -> feed.add("\ud800", right));
            assertThrows(IllegalArgumentException.class, () -> feed.remove("\ud800"));
            assertThrows(IllegalArgumentException.class, () -> feed.leftOut(-1));
            assertThrows(NullPointerException.class, () -> feed.add("1", null));
            assertThrows(NullPointerException.class, () -> feed.add((byte[]) null, right));
            feed.add(new byte[65_535], right);
            assertEquals(2, feed.finish().added());
        }
        try (Indexer index = index()) {
            String long256 = "x".repeat(256);
            assertThrows(IllegalArgumentException.class, () -> index.feed(""));
            assertThrows(IllegalArgumentException.class, () -> index.changes(long256));
            assertThrows(NullPointerException.class, () -> index.feed(null));
            RuntimeException own = new RuntimeException("mine");
            Iterable<KeyedDocument> failing = () -> IntStream.range(0, 10).mapToObj(i -> {
                if (i == 9) {
                    throw own;
                }
                return new KeyedDocument("key " + i, room("Oslo", ""));
            }).iterator();
            assertEquals(own, assertThrows(
                    RuntimeException.class, () -> index.apply("other", failing)));
            assertEquals(List.of("rooms"), List.copyOf(index.status().sources().keySet()));
            // The index is usable after that.
            assertFalse(index.delete("rooms", "1"));
        }
    }

    @Test
    void aFeedRemovesNoMoreThanItMay() {
        IndexerOptions options = IndexerOptions.defaults().maxRemoved(0.2).threads(1)
                .memoryLimit(64 << 20);
        List<KeyedDocument> all = IntStream.range(0, 10)
                .mapToObj(i -> new KeyedDocument("room " + i, room("Oslo", "" + i))).toList();
        try (Indexer index = Indexer.open(dir.resolve("index"), SCHEMA, BY_CITY, options)) {
            index.apply("rooms", all);
            IllegalArgumentException error = assertThrows(IllegalArgumentException.class,
                    () -> index.apply("rooms", all.subList(0, 7)));
            assertTrue(error.getMessage().contains("3 of the 10"), error.getMessage());
            assertEquals(2, index.apply("rooms", all.subList(0, 8)).removed());
            try (Feed feed = index.feed("rooms").maxRemoved(1)) {
                feed.addAll(all.subList(0, 1));
                assertEquals(7, feed.finish().removed());
            }
        }
        try (Indexer index = index()) {
            index.apply("rooms", all);
            try (Feed feed = index.feed("rooms")) {
                feed.addAll(all.subList(0, 5));
                feed.leftOut(1);
                assertThrows(IllegalArgumentException.class, feed::finish);
            }
            assertEquals(5, index.apply("rooms", all.subList(0, 5)).removed());
            assertThrows(IllegalArgumentException.class, () -> options.maxRemoved(1.1));
            assertThrows(IllegalArgumentException.class, () -> options.maxRemoved(Double.NaN));
            assertThrows(IllegalArgumentException.class, () -> options.threads(0));
            assertThrows(IllegalArgumentException.class, () -> options.memoryLimit(-1));
            try (Feed feed = index.feed("rooms")) {
                assertThrows(IllegalArgumentException.class, () -> feed.maxRemoved(-0.1));
            }
        }
    }

    static Stream<Partitioning> partitionings() {
        return Stream.of(
                BY_CITY, Partitioning.byHash(1), Partitioning.byHash(7),
                Partitioning.byFieldAndHash("city", 3));
    }

    @ParameterizedTest
    @MethodSource("partitionings")
    void theCollectionFollowsFromTheSources(Partitioning partitioning) {
        Random random = new Random(7);
        Map<String, Map<String, String>> sources = new TreeMap<>();
        Path path = dir.resolve("index");
        try (Indexer index = Indexer.open(path, SCHEMA, BY_CITY)) {
            for (int round = 0; round < 30; round++) {
                String source = "source " + random.nextInt(3);
                Map<String, String> documents =
                        sources.computeIfAbsent(source, name -> new TreeMap<>());
                if (random.nextInt(3) == 0) {
                    documents.clear();
                    IntStream.range(0, random.nextInt(20)).forEach(i ->
                            documents.put("key " + random.nextInt(30), "v" + random.nextInt(3)));
                    index.apply(source, documents.entrySet().stream()
                            .map(e -> new KeyedDocument(e.getKey(), document(e)))::iterator);
                } else {
                    String key = "key " + random.nextInt(30);
                    if (random.nextBoolean()) {
                        boolean isNew = !("v" + round).equals(documents.put(key, "v" + round));
                        assertEquals(isNew, index.upsert(
                                source, key, document(Map.entry(key, "v" + round))));
                    } else {
                        assertEquals(documents.remove(key) != null, index.delete(source, key));
                    }
                }
                if (round == 15) {
                    index.repartition(partitioning);
                    assertEquals(partitioning, index.partitioning());
                }
                if (random.nextInt(4) == 0) {
                    index.publish();
                    assertEquals(expected(sources), rooms(index));
                }
            }
            index.publish();
            assertEquals(expected(sources), rooms(index));
        }
        assertThrows(IllegalArgumentException.class,
                () -> Indexer.open(path, SCHEMA, Partitioning.byHash(9)));
        try (Indexer index = Indexer.open(path, SCHEMA, partitioning)) {
            assertEquals(expected(sources), rooms(index));
        }
    }

    private static Document document(Map.Entry<String, String> entry) {
        String city = "city " + entry.getValue().charAt(1);
        return room(city, entry.getKey() + " " + entry.getValue());
    }

    /** The document of the first source that has the key. */
    private static List<String> expected(Map<String, Map<String, String>> sources) {
        Map<String, String> first = new TreeMap<>();
        sources.values().forEach(documents -> documents.forEach(first::putIfAbsent));
        TreeSet<String> rooms = new TreeSet<>();
        first.forEach((key, value) ->
                rooms.add(key + " " + value + " in city " + value.charAt(1)));
        return List.copyOf(rooms);
    }

    @Test
    void indexesThatCannotBeOpened() throws IOException {
        Path path = dir.resolve("index");
        assertThrows(NotFoundException.class, () -> Indexer.openExisting(path));
        Partitioning wrong = Partitioning.byField("price");
        assertThrows(IllegalArgumentException.class, () -> Indexer.open(path, SCHEMA, wrong));
        assertThrows(IllegalArgumentException.class,
                () -> Indexer.open(path, SCHEMA, Partitioning.byField("town")));
        assertThrows(IllegalArgumentException.class,
                () -> Indexer.open(path, Schema.dynamic(Role.STORED), Partitioning.byHash(1)));
        assertThrows(IllegalArgumentException.class,
                () -> Indexer.open(path, SCHEMA, Partitioning.byHash(32_001)));
        assertThrows(IllegalArgumentException.class, () -> Partitioning.byHash(0));
        assertThrows(IllegalArgumentException.class, () -> Partitioning.byHash(-1));
        assertThrows(
                IllegalArgumentException.class, () -> Partitioning.byFieldAndHash("city", 0));
        assertThrows(NullPointerException.class, () -> Partitioning.byField(null));
        assertNull(Partitioning.byHash(3).field());
        try (Indexer index = index()) {
            LockedException locked = assertThrows(LockedException.class, this::index);
            assertTrue(locked.path().startsWith(index.path()));
            index.upsert("rooms", "1", room("Oslo", "one"));
            index.publish();
        }
        assertThrows(IllegalArgumentException.class,
                () -> Indexer.open(path, SCHEMA.orderBy(Order.asc("city")), BY_CITY));
        Path partition;
        try (Stream<Path> files = Files.list(path.resolve("collection"))) {
            partition = files.filter(file -> file.toString().endsWith(".part.firn"))
                    .findFirst().get();
        }
        Files.write(partition, bytes("no partition"));
        CorruptException corrupt = assertThrows(CorruptException.class, this::index);
        assertEquals(partition.toAbsolutePath(), corrupt.path());
    }

    @Test
    void backupsOpenLikeIndexes() throws IOException {
        Path to = dir.resolve("backup");
        try (Indexer index = index()) {
            index.upsert("rooms", "1", room("Oslo", "one"));
            index.publish();
            index.upsert("rooms", "2", room("Oslo", "two"));
            Indexer.Backup backup = index.backup(to);
            assertEquals(1, backup.partitions());
            assertTrue(backup.segments() > 0);
            index.upsert("rooms", "3", room("Oslo", "three"));
            index.backup(to);
            Path other = Files.createDirectory(dir.resolve("other"));
            Files.write(other.resolve("notes.txt"), bytes("mine"));
            assertThrows(AlreadyExistsException.class, () -> index.backup(other));
        }
        try (Indexer index = Indexer.openExisting(to)) {
            assertFalse(index.isRemade());
            assertEquals(List.of("one in Oslo"), rooms(index));
            index.publish();
            assertEquals(3, rooms(index).size());
        }
        try (Indexer index = index()) {
            index.publish();
        }
        try (Stream<Path> files = Files.walk(dir.resolve("index/collection"))) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                Files.delete(file);
            }
        }
        try (Indexer index = index()) {
            assertTrue(index.isRemade());
            assertEquals(List.of(), rooms(index));
            index.publish();
            assertEquals(3, rooms(index).size());
        }
    }

    @Test
    void aCollectionThatWasChangedByOthersIsNotOverwritten() throws IOException {
        try (Indexer index = index()) {
            index.upsert("rooms", "1", room("Oslo", "one"));
            index.publish();
            Path collection = index.path().resolve("collection");
            Files.delete(collection.resolve("owned-by-index"));
            try (Collection other = Collection.open(collection)) {
                other.change().clear().commit();
            }
            index.upsert("rooms", "2", room("Oslo", "two"));
            assertThrows(FailedException.class, index::publish);
        }
        try (Indexer index = index()) {
            assertTrue(index.isRemade());
            index.publish();
            assertEquals(List.of("one in Oslo", "two in Oslo"), rooms(index));
        }
    }

    @Test
    void aCatalogGetsTheCollection() {
        Path cache = dir.resolve("cache");
        try (Catalog catalog = Catalog.create(dir.resolve("catalog")); Indexer index = index()) {
            index.upsert("rooms", "1", room("Oslo", "one"));
            Indexer.Publication first = index.publishTo(catalog, "rooms");
            assertEquals(List.of("Oslo"), first.rebuilt());
            assertEquals(1, first.published().get().version().number());
            assertEquals(Version.Kind.COLLECTION, first.published().get().version().kind());
            index.upsert("rooms", "2", room("Bergen", "two"));
            index.publish();
            assertEquals(2, index.publishTo(catalog, "rooms").published().get()
                    .version().number());
            assertEquals(Optional.empty(), index.publishTo(catalog, "rooms").published());
            assertThrows(NullPointerException.class, () -> index.publishTo(catalog, null));
            assertThrows(
                    IllegalArgumentException.class, () -> index.publishTo(catalog, "a/../b"));
            try (CatalogReader reader = catalog.reader("rooms", cache);
                    Generation generation = reader.current();
                    CollectionReader rooms = generation.collection()) {
                assertEquals(List.of("one in Oslo", "two in Bergen"), rooms(rooms));
            }
            catalog.close();
            assertThrows(IllegalStateException.class, () -> index.publishTo(catalog, "rooms"));
        }
    }

    @Test
    void whatWasNotClosedIsClosedAsALeak() {
        long end = System.nanoTime() + 30_000_000_000L;
        leakFeed();
        for (boolean isClosed = false; !isClosed; ) {
            System.gc();
            try (Indexer index = index()) {
                isClosed = true;
                assertEquals(Map.of(), index.status().sources());
                beginFeed(index);
                for (boolean hasEnded = false; !hasEnded; ) {
                    System.gc();
                    try (Feed feed = index.feed("rooms")) {
                        hasEnded = true;
                        assertEquals(0, feed.finish().added());
                    } catch (LockedException e) {
                        assertTrue(System.nanoTime() < end, "the feed does not end");
                    }
                }
            } catch (LockedException e) {
                assertTrue(System.nanoTime() < end, "the index stays open");
            }
        }
    }

    private void leakFeed() {
        beginFeed(index());
    }

    private static void beginFeed(Indexer index) {
        index.feed("rooms").add("1", room("Oslo", "one"));
    }

    @Test
    void threadsReadAndChangeUntilOneCloses() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        try (Indexer index = index()) {
            List<Future<Integer>> results = new ArrayList<>();
            for (int t = 0; t < 3; t++) {
                String key = "key " + t;
                results.add(threads.submit(() -> {
                    for (int i = 0; ; i++) {
                        try {
                            index.upsert("rooms", key, room("Oslo", "round " + i));
                            index.publish();
                        } catch (IllegalStateException e) {
                            return i;
                        }
                    }
                }));
                results.add(threads.submit(() -> {
                    for (int i = 0; ; i++) {
                        try {
                            assertTrue(rooms(index).size() <= 3);
                        } catch (IllegalStateException e) {
                            return i;
                        }
                    }
                }));
            }
            Thread.sleep(300);
            index.close();
            for (Future<Integer> result : results) {
                assertTrue(result.get() > 0);
            }
        } finally {
            threads.shutdownNow();
        }
        try (Indexer index = index()) {
            index.publish();
            assertEquals(3, rooms(index).size());
        }
    }
}
