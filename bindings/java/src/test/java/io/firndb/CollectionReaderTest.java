package io.firndb;

import static io.firndb.Filter.all;
import static io.firndb.Filter.and;
import static io.firndb.Filter.eq;
import static io.firndb.Filter.exists;
import static io.firndb.Filter.gt;
import static io.firndb.Filter.lt;
import static io.firndb.Order.asc;
import static io.firndb.Order.desc;
import static io.firndb.SearchModel.same;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.firndb.SearchModel.Condition;
import io.firndb.SearchModel.Doc;
import java.io.RandomAccessFile;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Queries, compared with a model in Java. */
class CollectionReaderTest {
    private static final int DOCUMENTS = 300;

    @TempDir
    static Path dir;
    private static SearchModel model;
    private static CollectionReader reader;

    @BeforeAll
    static void build() {
        model = new SearchModel(dir.resolve("model"), 0xC011EC7, DOCUMENTS);
        reader = model.collection.reader();
    }

    @AfterAll
    static void close() {
        reader.close();
        model.collection.close();
    }

    private static List<Long> ids(List<Doc> docs) {
        return docs.stream().map(Doc::hit).toList();
    }

    private static List<Long> ids(Hits hits) {
        return Stream.of(hits.hits()).flatMap(all -> Arrays.stream(all).boxed()).toList();
    }

    @Test
    void pagesAndCountsAreThoseOfTheModel() {
        for (int i = 0; i < 500; i++) {
            Condition condition = model.condition(3);
            List<Order> order = model.order();
            List<Doc> matches = model.matches(condition, order);
            String text = condition.filter().toString();
            assertEquals(matches.size(), reader.count(condition.filter()), text);
            assertEquals(matches.size(), reader.count(text), text);
            Query all = Query.where(condition.filter()).orderBy(order.toArray(Order[]::new));
            assertEquals(ids(matches), ids(reader.search(all)), all.toString());
            int skip = model.below(30);
            int limit = model.below(30);
            Query page = all.skip(skip).limit(limit).withCount();
            List<Doc> expected = matches.stream().skip(skip).limit(limit).toList();
            Hits hits = reader.search(page);
            assertEquals(ids(expected), ids(hits), page.toString());
            assertEquals(OptionalLong.of(matches.size()), hits.total());
            assertEquals(matches.size(), reader.count(page));
            Hits sameHits = reader.search(page.toString());
            assertEquals(ids(expected), ids(sameHits), page.toString());
            assertEquals(OptionalLong.empty(), sameHits.total());
            assertEquals(hits.next(), sameHits.next());
        }
    }

    @Test
    void pagesByTokenAreOneLongPage() {
        for (int i = 0; i < 60; i++) {
            Condition condition = model.condition(2);
            List<Order> order = model.order();
            Query query = Query.where(condition.filter()).orderBy(order.toArray(Order[]::new))
                    .limit(1 + model.below(40));
            List<Long> found = new ArrayList<>();
            String token = null;
            do {
                Hits hits = reader.search(query.after(token));
                found.addAll(ids(hits));
                token = hits.next();
                if (token != null) {
                    assertEquals(query.limit().getAsLong(), hits.size());
                    assertTrue(token.matches("[A-Za-z0-9_.~-]+"), token);
                }
            } while (token != null);
            assertEquals(ids(model.matches(condition, order)), found, query.toString());
        }
        assertNull(reader.search(Query.select()).next());
        assertNull(reader.search("all limit 0").next());
    }

    @Test
    void visitorsSeeTheMatchesInOrder() {
        for (int i = 0; i < 100; i++) {
            Condition condition = model.condition(2);
            List<Order> order = model.order();
            List<Doc> matches = model.matches(condition, order);
            Query query = Query.where(condition.filter()).orderBy(order.toArray(Order[]::new));
            List<Long> found = new ArrayList<>();
            int most = 1 + model.below(50);
            HitVisitor visitor = (given, hit) -> {
                assertSame(reader, given);
                Doc doc = matches.get(found.size());
                assertEquals(doc.first("id"), given.longValue(hit, "id"));
                assertEquals(1, given.count(eq("id", doc.first("id"))));
                found.add(hit);
                return found.size() < most;
            };
            reader.forEach(query, visitor);
            assertEquals(ids(matches).subList(0, Math.min(most, matches.size())), found);
            found.clear();
            reader.forEach(query.toString(), visitor);
            assertEquals(Math.min(most, matches.size()), found.size());
        }
    }

    @Test
    void aVisitorCanThrowAndCannotClose() {
        RuntimeException own = new RuntimeException("mine");
        assertSame(own, assertThrows(RuntimeException.class, () ->
                reader.forEach(Query.select(), (given, hit) -> {
                    throw own;
                })));
        List<Throwable> refused = new ArrayList<>();
        try (CollectionReader closing = model.collection.reader()) {
            closing.forEach(Query.select(), (given, hit) -> {
                refused.add(assertThrows(IllegalStateException.class, given::close));
                given.withThreads(2).close();
                return false;
            });
            assertEquals(DOCUMENTS, closing.size());
        }
        assertEquals(1, refused.size());
        assertThrows(NullPointerException.class, () -> reader.forEach("", null));
        assertThrows(
                IllegalArgumentException.class, () -> reader.forEach("none = 1", (r, hit) -> true));
    }

    @Test
    void aVisitorOfManyHitsLeavesNoReferences() {
        Schema schema = Schema.of(Field.of("n", FieldType.I64).full());
        int documents = 200_000;
        try (Collection many = Collection.create(dir.resolve("many"));
                PartitionBuilder builder = PartitionBuilder.create(schema)) {
            for (int i = 0; i < documents; i++) {
                builder.add(new Document().set("n", i));
            }
            many.change().put("all", builder).commit();
            try (CollectionReader all = many.reader()) {
                // The checks of JNI warn about more local references than a frame has. The sums are
                // those of all hits: the iteration goes on after the first batch.
                long[] sums = new long[2];
                all.forEach(Query.select().orderBy(desc("n")), (given, hit) -> {
                    sums[0]++;
                    sums[1] += Hit.document(hit);
                    return true;
                });
                assertEquals(documents, sums[0]);
                assertEquals(documents * (documents - 1L) / 2, sums[1]);
                Hits hits = all.search(Query.select());
                assertEquals(documents, hits.longs("n", -1).length);
                List<Object> values = hits.values("n");
                for (int i = 0; i < documents; i += 997) {
                    assertEquals((long) i, values.get(i));
                }
            }
        }
    }

    @Test
    void valuesAreThoseThatWereWritten() {
        ByteBuffer direct = ByteBuffer.allocateDirect(100);
        for (Doc doc : model.docs) {
            for (Field field : SearchModel.SCHEMA.fields()) {
                String name = field.name();
                assertTrue(same(doc.first(name), reader.value(doc.hit(), name)), name);
                assertTrue(same(doc.of(name), reader.values(doc.hit(), name)), name);
            }
            assertArrayEquals(doc.payload(), reader.payload(doc.hit()));
            assertEquals(doc.payload().length, reader.payload(doc.hit(), direct.clear()));
            assertEquals(ByteBuffer.wrap(doc.payload()), direct.flip());
            ByteBuffer small = ByteBuffer.allocate(3).position(1);
            assertEquals(doc.payload().length, reader.payload(doc.hit(), small));
            assertEquals(1, small.position());
            typedValues(doc);
        }
    }

    private void typedValues(Doc doc) {
        long hit = doc.hit();
        for (String name : List.of("rooms", "big", "price", "sold", "seen", "city")) {
            Object value = doc.first(name);
            if (name.equals("city")) {
                assertEquals(value, reader.stringValue(hit, name));
            } else if (name.equals("seen")) {
                assertEquals(value, reader.instantValue(hit, name));
                if (value != null) {
                    assertEquals(Values.micros((Instant) value), reader.longValue(hit, name));
                }
            } else if (value == null) {
                assertThrows(NoSuchElementException.class, () -> typed(hit, name));
            } else if (value instanceof BigInteger) {
                assertThrows(IllegalArgumentException.class, () -> typed(hit, name));
            } else {
                assertEquals(value, typed(hit, name));
            }
        }
        for (Runnable wrong : List.<Runnable>of(
                () -> reader.doubleValue(hit, "id"), () -> reader.booleanValue(hit, "id"),
                () -> reader.stringValue(hit, "id"), () -> reader.instantValue(hit, "id"))) {
            assertThrows(IllegalArgumentException.class, wrong::run);
        }
    }

    private static Object typed(long hit, String name) {
        return switch (name) {
            case "price" -> reader.doubleValue(hit, name);
            case "sold" -> reader.booleanValue(hit, name);
            default -> reader.longValue(hit, name);
        };
    }

    @ParameterizedTest
    @ValueSource(longs = {-1, 1000, 3L << 32, 1L << 62, Long.MIN_VALUE, 0xffffffffL})
    void numbersThatAreNoHitsAreRefused(long hit) {
        for (Runnable call : List.<Runnable>of(
                () -> reader.value(hit, "id"), () -> reader.values(hit, "tags"),
                () -> reader.values(hit, "id"), () -> reader.value(hit, "city"),
                () -> reader.longValue(hit, "id"), () -> reader.payload(hit),
                () -> reader.payload(hit, ByteBuffer.allocate(10)),
                () -> reader.value(hit, "tags"),
                () -> new Hits(reader, new byte[0], new long[] {-1, hit}).payloads(),
                () -> new Hits(reader, new byte[0], new long[] {-1, hit}).values("sizes"),
                () -> new Hits(reader, new byte[0], new long[] {-1, hit}).values("city"),
                () -> new Hits(reader, new byte[0], new long[] {-1, hit}).longs("rooms", 0),
                () -> new Hits(reader, new byte[0], new long[] {-1, hit}).doubles("price"))) {
            assertThrows(IllegalArgumentException.class, call::run);
        }
    }

    @Test
    void facetsAreThoseOfTheModel() {
        for (int i = 0; i < 150; i++) {
            Condition condition = model.condition(2);
            String field = model.pickField();
            List<Doc> matches = model.matches(condition, List.of());
            TreeMap<Object, Long> counts = new TreeMap<>(SearchModel::compare);
            matches.forEach(doc -> doc.of(field).forEach(v -> counts.merge(v, 1L, Long::sum)));
            long missing = matches.stream().filter(doc -> doc.of(field).isEmpty()).count();
            int top = model.below(8);
            List<FacetCounts> facets = reader.facets(
                    condition.filter(), Facet.of(field).top(top), Facet.of("id").top(0));
            FacetCounts found = facets.get(0);
            assertEquals(field, found.field());
            assertEquals(counts.size(), found.distinct());
            assertEquals(missing, found.missing());
            List<Object> values = counts.entrySet().stream()
                    .sorted((a, b) -> Long.compare(b.getValue(), a.getValue()))
                    .limit(top).<Object>map(e -> List.of(e.getKey(), e.getValue())).toList();
            List<Object> foundValues = found.values().stream()
                    .<Object>map(count -> List.of(count.value(), count.documents())).toList();
            assertEquals(values.size(), foundValues.size());
            for (int at = 0; at < values.size(); at++) {
                assertTrue(same(values.get(at), foundValues.get(at)), values + " " + foundValues);
            }
            assertEquals(new FacetCounts("id", List.of(), matches.size(), 0), facets.get(1));
        }
        List<FacetCounts> disjunctive = reader.facets(
                "city = 'Oslo' and price > 1", Facet.of("city").disjunctive(), Facet.of("city"));
        assertTrue(disjunctive.get(0).distinct() > 1);
        assertEquals(1, disjunctive.get(1).distinct());
        assertEquals(List.of(), reader.facets(all()));
    }

    @Test
    void aggregatesAreThoseOfTheModel() {
        for (int i = 0; i < 100; i++) {
            Condition condition = model.condition(2);
            String field = model.pickField();
            List<Object> values = model.matches(condition, List.of()).stream()
                    .flatMap(doc -> doc.of(field).stream()).sorted(SearchModel::compare).toList();
            checkAggregate(values, reader.aggregate(condition.filter(), field));
            checkAggregate(values, reader.aggregate(condition.filter().toString(), field));
        }
        Aggregate price = reader.aggregate("price > 0 and price < 100", "price");
        assertEquals(price.sum().doubleValue() / price.count(), price.average());
        assertEquals(Double.class, price.sum().getClass());
        checkAggregate(List.of(), reader.aggregate("id = 0 and id = 1", "rooms"));
    }

    private static void checkAggregate(List<Object> values, Aggregate found) {
        assertEquals(values.size(), found.count());
        boolean isEmpty = values.isEmpty();
        assertTrue(same(isEmpty ? null : values.get(0), found.min()));
        assertTrue(same(isEmpty ? null : values.get(values.size() - 1), found.max()));
        if (isEmpty || !(values.get(0) instanceof Number)) {
            assertNull(found.sum());
            assertNull(found.average());
        } else if (!(values.get(0) instanceof Double)) {
            BigInteger sum = values.stream().map(value -> new BigInteger(value.toString()))
                    .reduce(BigInteger.ZERO, BigInteger::add);
            assertEquals(sum, new BigInteger(found.sum().toString()));
            assertEquals(sum.bitLength() < 64, found.sum() instanceof Long);
            assertEquals(sum.doubleValue() / values.size(), found.average(), 1e3);
        }
    }

    @Test
    void groupsAreThoseOfTheModel() {
        for (int i = 0; i < 60; i++) {
            Condition condition = model.condition(2);
            String first = model.pickField();
            String second = model.pickField();
            List<Doc> matches = model.matches(condition, List.of());
            GroupBy by = first.equals(second) ? GroupBy.of(first) : GroupBy.of(first, second);
            long documents = 0;
            List<Group> groups =
                    reader.groupBy(condition.filter(), by.aggregate("rooms", "sizes"));
            for (Group group : groups) {
                List<Doc> members = matches.stream()
                        .filter(doc -> isIn(doc, by.fields(), group.key())).toList();
                assertEquals(members.size(), group.count(), by + " " + group.key());
                List<Object> rooms = members.stream().flatMap(doc -> doc.of("rooms").stream())
                        .sorted(SearchModel::compare).toList();
                checkAggregate(rooms, group.aggregates().get(0));
                assertEquals(2, group.aggregates().size());
                documents += group.count();
            }
            long expected = matches.stream().mapToLong(doc -> by.fields().stream()
                    .mapToLong(field -> Math.max(doc.of(field).size(), 1))
                    .reduce(1, (a, b) -> a * b)).sum();
            assertEquals(expected, documents);
        }
        Group whole = reader.groupBy("", GroupBy.of()).get(0);
        assertEquals(new Group(List.of(), DOCUMENTS, List.of()), whole);
        assertThrows(
                IllegalArgumentException.class,
                () -> reader.groupBy(all(), GroupBy.of("id", "city", "sold")));
    }

    private static boolean isIn(Doc doc, List<String> fields, List<Object> key) {
        for (int i = 0; i < fields.size(); i++) {
            Object wanted = key.get(i);
            List<Object> values = doc.of(fields.get(i));
            boolean isIn = wanted == null ? values.isEmpty()
                    : values.stream().anyMatch(value -> same(value, wanted));
            if (!isIn) {
                return false;
            }
        }
        return true;
    }

    @Test
    void figuresOfTheCollection() {
        assertEquals(DOCUMENTS, reader.size());
        assertEquals(SearchModel.SCHEMA, reader.schema());
        List<CollectionReader.Partition> partitions = reader.partitions();
        assertEquals(
                List.of("part-0", "part-1", "part-2"),
                partitions.stream().map(CollectionReader.Partition::name).toList());
        CollectionReader.Stats stats = reader.stats();
        long bytes = partitions.stream().mapToLong(CollectionReader.Partition::bytes).sum();
        assertEquals(new CollectionReader.Stats(DOCUMENTS, 3, bytes, stats.bundleBytes()), stats);
        assertEquals(stats.bundleBytes() + 9000, stats.offHeapBytes());
        assertEquals(new Verification(3, bytes, DOCUMENTS), reader.verify());
        reader.warm();
        assertTrue(reader.stats().bundleBytes() > 0);
        assertEquals("CollectionReader of 300 documents", reader.toString());
    }

    @Test
    void explanations() {
        Query query = Query.where(and(eq("city", "\"\\\n"), gt("price", 0)))
                .orderBy(asc("price")).limit(3).withCount();
        Explanation found = reader.explain(query);
        assertEquals(0, found.hits());
        assertEquals(OptionalLong.of(0), found.matches());
        assertEquals(3, found.partitions());
        assertTrue(found.time().toNanos() > 0);
        assertTrue(found.toString().contains("partitions: 3, "), found.text());
        assertTrue(found.plan().get(0).startsWith("filter: "));
        assertTrue(found.toJson().startsWith("{\"plan\":[\"filter: "), found.toJson());
        assertTrue(
                new Explanation(
                        List.of("\"\\\n"), 0, OptionalLong.empty(), 0, 0, 0, 0, 0, Duration.ZERO, "")
                        .toJson().startsWith("{\"plan\":[\"\\\"\\\\\\u000a\"],\"hits\":0,"));
        assertTrue(found.toJson().contains("],\"hits\":0,\"matches\":0,\"partitions\":3,"));
        Explanation text = reader.explain("price > 0 limit 5");
        assertEquals(5, text.hits());
        assertEquals(OptionalLong.empty(), text.matches());
        assertTrue(text.toJson().contains("\"matches\":null,"));
        assertTrue(text.touchedBytes() >= 0 && text.documentsTouched() >= 0);
    }

    @Test
    void readersOfSomePartitions() {
        try (CollectionReader some = reader.withPartitions(List.of("part-2", "part-0"))) {
            assertEquals(200, some.size());
            assertEquals(2, some.partitions().size());
            long hit = some.search("all order by id limit 1").hit(0);
            assertEquals(1, reader.count(eq("id", some.longValue(hit, "id"))));
        }
        try (CollectionReader none = reader.withPartitions(List.of())) {
            assertEquals(0, none.size());
            assertTrue(none.search("all").isEmpty());
        }
        assertThrows(NotFoundException.class, () -> reader.withPartitions(List.of("part-9")));
    }

    @Test
    void settingsOfReaders() {
        Query query = Query.where(gt("price", 0)).orderBy(asc("price"), asc("id")).withCount();
        List<Long> expected = ids(reader.search(query));
        try (CollectionReader threads = reader.withThreads(4);
                CollectionReader unbundled = threads.withBundleLimit(0);
                CollectionReader patient = unbundled.withTimeout(Duration.ofSeconds(Long.MAX_VALUE));
                CollectionReader limited = patient.withGroupLimit(5)) {
            for (CollectionReader each : List.of(threads, unbundled, patient, limited)) {
                assertEquals(expected, ids(each.search(query)));
            }
            assertThrows(
                    IllegalArgumentException.class, () -> limited.groupBy(all(), GroupBy.of("id")));
            assertThrows(
                    IllegalArgumentException.class, () -> limited.facets(all(), Facet.of("id")));
            assertEquals(2, limited.facets(all(), Facet.of("sold")).get(0).distinct());
        }
        try (CollectionReader late = reader.withTimeout(Duration.ZERO)) {
            for (Runnable call : List.<Runnable>of(
                    () -> late.search(query), () -> late.count(lt("price", 3)),
                    () -> late.forEach(query, (given, hit) -> true),
                    () -> late.explain(query), () -> late.aggregate(all(), "rooms"),
                    () -> late.facets(all(), Facet.of("city")), late::warm)) {
                assertThrows(CancelledException.class, call::run);
            }
            assertEquals(DOCUMENTS, late.size());
            try (CollectionReader still = late.withThreads(2)) {
                assertThrows(CancelledException.class, () -> still.search(query));
            }
        }
        assertThrows(IllegalArgumentException.class, () -> reader.withThreads(0));
        assertThrows(IllegalArgumentException.class, () -> reader.withGroupLimit(-1));
        assertThrows(IllegalArgumentException.class, () -> reader.withBundleLimit(-1));
        assertThrows(
                IllegalArgumentException.class, () -> reader.withTimeout(Duration.ofNanos(-1)));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "prize < 3", "price < 'x'", "city < 3", "sold = 1", "price < 3 order by tags",
        "seen = 'yesterday'", "price <", "all after x"
    })
    void errorsOfTextsMarkThePlace(String text) {
        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> reader.search(text));
        assertTrue(error.getMessage().startsWith(text + "\n"), error.getMessage());
        assertTrue(error.getMessage().contains("^"), error.getMessage());
        if (!text.equals("price <") && !text.endsWith("x")) {
            Query query = Query.parse(text); // It has no schema.
            assertThrows(IllegalArgumentException.class, () -> reader.search(query));
        }
    }

    @Test
    void wrongQueriesAreRefused() {
        for (Query wrong : List.of(
                Query.where(eq("none", 1)), Query.where(eq("price", "x")),
                Query.where(eq("price", Double.NaN)), Query.select().orderBy(asc("tags")),
                Query.select().after("x"), Query.select().orderBy(asc("id")).after("pa~d1"))) {
            assertThrows(IllegalArgumentException.class, () -> reader.search(wrong));
        }
        assertThrows(IllegalArgumentException.class, () -> reader.count("all limit 3"));
        assertThrows(IllegalArgumentException.class, () -> reader.value(0, "none"));
        assertThrows(NullPointerException.class, () -> reader.value(0, null));
        assertThrows(IllegalArgumentException.class, () -> reader.value(0, ""));
        assertThrows(IllegalArgumentException.class, () -> reader.value(0, "\ud83d"));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "x", "\u00e9", "\ud83d\ude00", "order by", "a\"b",
        "0123456789012345678901234567890123456789012345678901234567890123",
        "01234567890123456789012345678901234567890123456789012345678901234",
        "\u00e9123456789012345678901234567890123456789012345678901234567890123456789"
    })
    void fieldsMayHaveAnyName(String name) {
        Schema schema = Schema.of(Field.of(name, FieldType.I64).full());
        Path at = dir.resolve("names-" + name.hashCode());
        try (Collection collection = Collection.create(at);
                PartitionBuilder builder = PartitionBuilder.create(schema)) {
            builder.add(new Document().set(name, 5));
            collection.change().put("all", builder).commit();
            try (CollectionReader named = collection.reader()) {
                Hits hits = named.search(Query.where(eq(name, 5)).orderBy(desc(name)));
                assertEquals(5L, named.value(hits.hit(0), name));
                assertEquals(5, named.longValue(hits.hit(0), name));
                assertEquals(List.of(5L), hits.values(name));
                assertEquals(5, hits.longs(name, 0)[0]);
                assertEquals(5L, named.aggregate(all(), name).sum());
                assertEquals(1, named.count(eq(name, 5).toString()));
            }
        }
    }

    @Test
    void deepFiltersNeedLittleStack() throws Exception {
        // The tree of a text has two levels for each parenthesis.
        String text = "rooms = 1";
        for (int level = 0; level < 126; level++) {
            text = "(rooms = " + level + " or rooms in (1, 2, 3) and " + text + ")";
        }
        String deepText = text;
        Filter filter = exists("rooms");
        for (int level = 1; level < 127; level++) {
            filter = level % 2 == 0 ? Filter.or(eq("rooms", level), filter)
                    : and(lt("rooms", 1000 + level), filter);
        }
        Filter deepFilter = filter;
        List<Throwable> failures = new ArrayList<>();
        Thread thread = new Thread(null, () -> {
            try {
                long count = reader.count("rooms between 1 and 3");
                assertEquals(count, reader.count(deepText));
                assertEquals(count, reader.count(Filter.parse(deepText)));
                assertEquals(reader.count("rooms < 1001"), reader.count(deepFilter));
                assertEquals(deepFilter, Filter.parse(deepFilter.toString()));
                Query query = Query.parse(deepText + " order by price, id limit 20");
                Hits hits = reader.search(query);
                List<Long> visited = new ArrayList<>();
                reader.forEach(query, (given, hit) -> visited.add(hit));
                assertEquals(ids(hits), visited);
                assertEquals(ids(reader.search(query.after(hits.next()))),
                        ids(reader.search(query.skip(20))));
                assertEquals(20, reader.explain(query).hits());
                assertEquals(count, reader.aggregate(deepText, "rooms").count());
                assertEquals(1, reader.facets(deepFilter, Facet.of("sold").top(1)).size());
                visitorsOfDeepQueries(Query.where(deepFilter));
            } catch (Throwable e) {
                failures.add(e);
            }
        }, "small", 160 << 10);
        thread.start();
        thread.join();
        assertEquals(List.of(), failures);
    }

    private static void visitorsOfDeepQueries(Query query) {
        RuntimeException own = new RuntimeException("mine");
        int[] seen = {0};
        reader.forEach(query, (given, hit) -> ++seen[0] < 3);
        assertEquals(3, seen[0]);
        assertSame(own, assertThrows(RuntimeException.class, () ->
                reader.forEach(query, (given, hit) -> {
                    throw own;
                })));
        Query wrong = query.orderBy(asc("tags"));
        assertThrows(
                IllegalArgumentException.class, () -> reader.forEach(wrong, (given, hit) -> true));
    }

    @Test
    void aClosedReaderRefusesCalls() {
        CollectionReader closed = model.collection.reader();
        Hits hits = closed.search("all limit 5");
        Hit hit = hits.get(0);
        closed.close();
        closed.close();
        for (Runnable call : List.<Runnable>of(
                closed::size, closed::schema, closed::partitions, closed::stats, closed::warm,
                closed::verify, () -> closed.search("all"), () -> closed.search(Query.select()),
                () -> closed.count(all()), () -> closed.forEach("all", (given, id) -> true),
                () -> closed.facets(all(), Facet.of("city")), () -> closed.explain("all"),
                () -> closed.withThreads(2), () -> closed.withPartitions(List.of()),
                () -> hit.value("id"), () -> hit.values("id"), hit::payload, hits::payloads,
                hits::next, () -> hits.values("id"), () -> hits.longs("id", 0),
                () -> hits.doubles("price"), () -> hits.rows("id"))) {
            assertThrows(IllegalStateException.class, call::run);
        }
        assertEquals(5, hits.size());
        assertEquals("CollectionReader, closed", closed.toString());
    }

    @Test
    void damageIsReportedWithFileAndOffset() throws Exception {
        Path at = dir.resolve("damaged");
        new SearchModel(at, 7, 3000).collection.close();
        Path file;
        try (Stream<Path> files = Files.walk(at)) {
            file = files.filter(Files::isRegularFile)
                    .max((a, b) -> Long.compare(a.toFile().length(), b.toFile().length())).get();
        }
        try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
            for (long offset = 4096; offset < out.length() - 4096; offset += 64) {
                out.seek(offset);
                int old = out.read();
                out.seek(offset);
                out.write(old ^ 0x55);
            }
        }
        try (Collection collection = Collection.open(at);
                CollectionReader damaged = collection.reader()) {
            CorruptException error = assertThrows(CorruptException.class, damaged::verify);
            assertEquals(file.toRealPath(), error.path().toRealPath());
            assertTrue(error.offset() > 0, error.toString());
            assertEquals(ErrorKind.CORRUPT, error.kind());
            error = assertThrows(CorruptException.class, () -> {
                for (Hit hit : damaged.search("all")) {
                    hit.payload();
                    SearchModel.SCHEMA.fields().forEach(field -> hit.value(field.name()));
                }
            });
            assertEquals(file.toRealPath(), error.path().toRealPath());
            assertTrue(error.offset() > 0, error.toString());
        }
    }

    @Test
    void threadsSearchWhileOthersClose() throws Exception {
        AtomicReference<CollectionReader> open =
                new AtomicReference<>(model.collection.reader());
        AtomicReference<Throwable> failure = new AtomicReference<>();
        AtomicLong answers = new AtomicLong();
        AtomicLong refusals = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            int number = t;
            Thread thread = new Thread(() -> {
                try {
                    CollectionReader current = open.get();
                    for (int i = number; current != null; i++, current = open.get()) {
                        try {
                            call(current, i);
                            answers.incrementAndGet();
                        } catch (IllegalStateException e) {
                            refusals.incrementAndGet();
                        }
                        LockSupport.parkNanos(50_000); // Leaves the processor to the others.
                    }
                } catch (Throwable e) {
                    failure.set(e);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (int round = 0; failure.get() == null && (round < 200 || refusals.get() == 0);
                round++) {
            LockSupport.parkNanos(200_000);
            open.get().close();
            open.set(model.collection.reader());
        }
        open.getAndSet(null).close();
        for (Thread thread : threads) {
            thread.join();
        }
        assertNull(failure.get());
        assertTrue(answers.get() > 100, answers + " answers");
    }

    private static void call(CollectionReader open, int i) {
        switch (i % 6) {
            case 0 -> assertEquals(DOCUMENTS, open.count(""));
            case 1 -> assertEquals(20, open.search("all order by id limit 20").payloads().size());
            case 2 -> {
                int[] seen = {0};
                open.forEach(Query.select(), (given, hit) -> {
                    given.longValue(hit, "id");
                    return ++seen[0] < 10;
                });
                assertEquals(10, seen[0]);
            }
            case 3 -> assertFalse(open.facets(all(), Facet.of("tags")).isEmpty());
            case 4 -> assertEquals(3, open.partitions().size());
            default -> assertEquals(10, open.search("all limit 10").rows("city", "tags").size());
        }
    }
}
