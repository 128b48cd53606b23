package io.firndb;

import static io.firndb.Order.desc;
import static io.firndb.SearchModel.same;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.firndb.SearchModel.Doc;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.OptionalLong;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Pages of matches. */
class HitsTest {
    @TempDir
    static Path dir;
    private static SearchModel model;
    private static CollectionReader reader;
    private static Hits hits;
    /** The documents of {@link #hits}. */
    private static List<Doc> docs;

    @BeforeAll
    static void build() {
        model = new SearchModel(dir.resolve("model"), 0xA11, 3600);
        reader = model.collection.reader();
        Query query = Query.select().orderBy(desc("price")).limit(2500);
        hits = reader.search(query);
        SearchModel.Condition all = new SearchModel.Condition(Filter.all(), doc -> true);
        docs = model.matches(all, List.of(desc("price"))).subList(0, 2500);
    }

    @AfterAll
    static void close() {
        reader.close();
        model.collection.close();
    }

    @Test
    void hitsAreNumbersAndObjects() {
        assertEquals(2500, hits.size());
        assertFalse(hits.isEmpty());
        assertArrayEquals(docs.stream().mapToLong(Doc::hit).toArray(), hits.hits());
        int at = 0;
        for (Hit hit : hits) {
            Doc doc = docs.get(at);
            assertEquals(doc.hit(), hit.id());
            assertEquals(doc.hit(), hits.hit(at));
            assertEquals(hit, hits.get(at));
            assertEquals(doc.hit() >> 32, Hit.partition(hit.id()));
            assertEquals(doc.hit() & 0xffffffffL, Hit.document(hit.id()));
            assertEquals(doc.first("id"), hit.value("id"));
            assertTrue(same(doc.of("tags"), hit.values("tags")));
            assertArrayEquals(doc.payload(), hit.payload());
            at++;
        }
        assertEquals(2500, at);
        assertEquals(docs.stream().map(Doc::hit).toList(), hits.stream().map(Hit::id).toList());
        assertEquals("2500 hits", hits.toString());
        assertEquals("1 hits of 3600",
                reader.search(Query.select().limit(1).withCount()).toString());
        assertEquals(OptionalLong.empty(), hits.total());
        hits.hits()[0] = -1; // A copy.
        assertEquals(docs.get(0).hit(), hits.hit(0));
        assertThrows(IndexOutOfBoundsException.class, () -> hits.hit(2500));
        assertThrows(IndexOutOfBoundsException.class, () -> hits.hit(-1));
        assertThrows(IndexOutOfBoundsException.class, () -> hits.get(-1));
        Iterator<Hit> none = reader.search("all limit 0").iterator();
        assertThrows(NoSuchElementException.class, none::next);
    }

    @Test
    void columnsOfAllTypes() {
        for (Field field : SearchModel.SCHEMA.fields()) {
            List<Object> values = hits.values(field.name());
            assertEquals(docs.size(), values.size());
            for (int i = 0; i < docs.size(); i++) {
                assertTrue(same(expected(docs.get(i), field.name()), values.get(i)), field.name());
            }
        }
    }

    /** A value, or a list for a multi-valued field. */
    private static Object expected(Doc doc, String field) {
        return SearchModel.isMultiValued(field) ? doc.of(field) : doc.first(field);
    }

    @Test
    void rowsHaveTheFieldsInOrder() {
        List<Map<String, Object>> rows = hits.rows("city", "tags", "price", "seen");
        assertEquals(docs.size(), rows.size());
        for (int i = 0; i < rows.size(); i++) {
            Map<String, Object> row = rows.get(i);
            assertEquals(List.of("city", "tags", "price", "seen"), List.copyOf(row.keySet()));
            Doc doc = docs.get(i);
            row.forEach((field, value) -> assertTrue(same(expected(doc, field), value), field));
        }
        assertThrows(IllegalArgumentException.class, () -> hits.rows());
    }

    @Test
    void columnsWithoutObjects() {
        long[] rooms = hits.longs("rooms", 77);
        long[] seen = hits.longs("seen", 77);
        long[] ids = hits.longs("id", 77);
        double[] prices = hits.doubles("price");
        List<String> cities = hits.strings("city");
        for (int i = 0; i < docs.size(); i++) {
            Doc doc = docs.get(i);
            assertEquals(doc.of("rooms").isEmpty() ? 77L : doc.first("rooms"), rooms[i]);
            Instant time = (Instant) doc.first("seen");
            assertEquals(time == null ? 77 : Values.micros(time), seen[i]);
            assertEquals(doc.first("id"), ids[i]);
            Object price = doc.first("price");
            assertEquals(price == null ? (Object) Double.NaN : price, prices[i]);
            assertEquals(doc.first("city"), cities.get(i));
        }
        long[] sizes = hits.longs("sizes", 77);
        for (int i = 0; i < docs.size(); i++) {
            assertEquals(docs.get(i).of("sizes").isEmpty() ? 77L : docs.get(i).first("sizes"),
                    sizes[i]);
        }
    }

    @Test
    void numbersThatDoNotFitALongAreRefused() {
        Hits small = reader.search("big < 9223372036854775808");
        assertTrue(Arrays.stream(small.longs("big", -1)).allMatch(big -> big >= 0));
        Hits large = reader.search("big >= 9223372036854775808 limit 3");
        assertThrows(IllegalArgumentException.class, () -> large.longs("big", -1));
        assertTrue(large.values("big").get(0) instanceof BigInteger);
    }

    @Test
    void wrongFieldsAreRefused() {
        for (Hits some : List.of(hits, reader.search("all limit 0"))) {
            for (Runnable call : List.<Runnable>of(
                    () -> some.values("none"), () -> some.rows("id", "none"),
                    () -> some.longs("none", 0), () -> some.longs("city", 0),
                    () -> some.longs("price", 0), () -> some.doubles("id"),
                    () -> some.strings("none"))) {
                assertThrows(IllegalArgumentException.class, call::run);
            }
        }
        assertThrows(IllegalArgumentException.class, () -> hits.strings("id"));
        assertThrows(IllegalArgumentException.class, () -> hits.strings("tags"));
        assertThrows(NullPointerException.class, () -> hits.values(null));
        assertThrows(NullPointerException.class, () -> hits.longs(null, 0));
    }

    @Test
    void payloadsOfAllHits() {
        List<byte[]> payloads = hits.payloads();
        assertEquals(docs.size(), payloads.size());
        for (int i = 0; i < docs.size(); i++) {
            assertArrayEquals(docs.get(i).payload(), payloads.get(i));
        }
        assertEquals(List.of(), reader.search("all limit 0").payloads());
    }

    @Test
    void largePayloadsComeInSeveralCalls() {
        byte[] large = new byte[9 << 20];
        try (Collection collection = Collection.create(dir.resolve("large"));
                PartitionBuilder builder = PartitionBuilder.create(
                        Schema.of(Field.of("n", FieldType.I64).full()))) {
            for (int i = 0; i < 17; i++) {
                large[0] = (byte) i;
                builder.add(new Document().set("n", i).payload(large));
            }
            collection.change().put("all", builder).commit();
            try (CollectionReader all = collection.reader()) {
                Iterator<byte[]> payloads = all.search("all order by n").payloads().iterator();
                for (int i = 0; i < 17; i++) {
                    byte[] payload = payloads.next();
                    assertEquals(i, payload[0]);
                    assertEquals(large.length, payload.length);
                }
                assertFalse(payloads.hasNext());
            }
        }
    }

    @Test
    void streamsHaveAllMatches() {
        Query query = Query.select().orderBy(desc("price"));
        assertEquals(
                docs.stream().map(Doc::hit).toList(),
                reader.stream(query.limit(2500).withCount()).map(Hit::id).toList());
        assertEquals(3600, reader.stream(query).distinct().count());
        List<Long> some = docs.stream().map(Doc::hit).skip(700).limit(1500).toList();
        Query middle = query.skip(700).limit(1500);
        assertEquals(some, reader.stream(middle).map(Hit::id).toList());
        Query later = query.after(reader.search(query.limit(500)).next()).skip(200).limit(1500);
        assertEquals(some, reader.stream(later).map(Hit::id).toList());
        assertEquals(0, reader.stream(query.limit(0)).count());
        assertEquals(0, reader.stream(query.skip(3600)).count());
        assertEquals(2000, reader.stream(query.limit(2000)).count());
        try (CollectionReader closed = model.collection.reader()) {
            Iterator<Hit> hits = closed.stream(query).iterator();
            hits.next();
            closed.close();
            assertThrows(IllegalStateException.class, () -> hits.forEachRemaining(hit -> { }));
            assertThrows(IllegalStateException.class, () -> closed.stream(query));
        }
    }

    @Test
    void pagesFollowEachOther() {
        Query query = Query.parse("sold = true order by price, id limit 100").withCount();
        List<Object> ids = new ArrayList<>();
        Hits page = reader.search(query);
        long total = page.total().getAsLong();
        while (page.next() != null) {
            ids.addAll(page.values("id"));
            page = reader.search(query.after(page.next()));
            assertEquals(total, page.total().getAsLong());
        }
        ids.addAll(page.values("id"));
        assertNull(page.next());
        assertEquals(total, ids.stream().distinct().count());
        assertEquals(total, ids.size());
    }
}
