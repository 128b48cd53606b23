package io.firndb;

import static io.firndb.Filter.all;
import static io.firndb.Filter.and;
import static io.firndb.Filter.between;
import static io.firndb.Filter.eq;
import static io.firndb.Filter.exists;
import static io.firndb.Filter.gt;
import static io.firndb.Filter.gte;
import static io.firndb.Filter.in;
import static io.firndb.Filter.lt;
import static io.firndb.Filter.lte;
import static io.firndb.Filter.not;
import static io.firndb.Filter.or;
import static io.firndb.Filter.prefix;
import static io.firndb.Order.asc;
import static io.firndb.Order.desc;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Filters and queries, without a collection. */
class QueryTest {
    private static final BigInteger LARGEST = new BigInteger("18446744073709551615");

    static Stream<Arguments> filters() {
        return Stream.of(
                Arguments.of(all(), "all"),
                Arguments.of(eq("a", 1), "a = 1"),
                Arguments.of(eq("a", (byte) -1), "a = -1"),
                Arguments.of(gt("a", Long.MIN_VALUE), "a > -9223372036854775808"),
                Arguments.of(gte("a", LARGEST), "a >= 18446744073709551615"),
                Arguments.of(lt("a", BigInteger.TWO), "a < 2"),
                Arguments.of(lte("a.b", 1.5f), "a.b <= 1.5"),
                Arguments.of(eq("order by", 1e300), "\"order by\" = 1e300"),
                Arguments.of(eq("\u00e9\"", Double.NEGATIVE_INFINITY), "\"\u00e9\"\"\" = -inf"),
                Arguments.of(eq("limit", true), "\"limit\" = true"),
                Arguments.of(eq("a", "it's \ud83d\ude00"), "a = 'it''s \ud83d\ude00'"),
                Arguments.of(eq("a", new byte[] {0, -1}), "a = x'00ff'"),
                Arguments.of(
                        eq("a", Instant.parse("2024-05-01T08:30:00.123456789Z")),
                        "a = timestamp '2024-05-01T08:30:00.123456Z'"),
                Arguments.of(in("a", 1, 2), "a in (1, 2)"),
                Arguments.of(in("a", List.of("x", "y")), "a in ('x', 'y')"),
                Arguments.of(in("a"), "a in ()"),
                Arguments.of(between("a", 1, 2.5), "a between 1 and 2.5"),
                Arguments.of(prefix("a", "50%"), "a prefix '50%'"),
                Arguments.of(prefix("a", new byte[] {1}), "a prefix x'01'"),
                Arguments.of(exists("a"), "exists a"),
                Arguments.of(and(eq("a", 1), eq("b", 2)), "a = 1 and b = 2"),
                Arguments.of(
                        and(eq("a", 1), or(eq("b", 2), eq("c", 3))), "a = 1 and (b = 2 or c = 3)"),
                Arguments.of(not(and(eq("a", 1), eq("b", 2))), "not (a = 1 and b = 2)"),
                Arguments.of(not(not(exists("a"))), "not not exists a"),
                Arguments.of(or(), "not all"),
                Arguments.of(and(), "all"));
    }

    @ParameterizedTest
    @MethodSource("filters")
    void filtersHaveATextForm(Filter filter, String text) {
        assertEquals(text, filter.toString());
        Query query = Query.where(filter);
        assertEquals(text, query.toString());
        assertEquals(filter, Filter.parse(text));
        assertEquals(filter.hashCode(), Filter.parse(text).hashCode());
        assertEquals(query, Query.parse(text));
    }

    @Test
    void listsOfTheSameKindAreJoined() {
        Filter a = eq("a", 1);
        Filter b = eq("b", 2);
        Filter c = eq("c", 3);
        assertEquals(and(a, b, c), and(and(a, b), c));
        assertEquals(and(a, b, c), and(a, and(b, c)));
        assertEquals(or(a, b, c), or(or(a, b), or(c)));
        assertEquals(a, and(a));
        assertNotEquals(and(a, b, c), and(c, b, a));
        assertNotEquals(and(a, or(b, c)), or(and(a, b), c));
        Query query = Query.select();
        for (int i = 0; i < 1000; i++) {
            query = query.and(gt("a", i)); // Adds no levels.
        }
        assertTrue(query.toString().startsWith("a > 0 and a > 1 and "));
        assertEquals(query, Query.parse(query.toString()));
    }

    @Test
    void queriesAreImmutable() {
        Query start = Query.where(lt("price", 20));
        Query all = start.and(exists("city")).orderBy(asc("price"), desc("id")).and(asc("city"))
                .skip(5).limit(10).after("i1~i2~sx~ppart~d3").withCount();
        assertEquals(
                "price < 20 and exists city order by price, id desc, city skip 5 limit 10"
                        + " after i1~i2~sx~ppart~d3",
                all.toString());
        assertEquals("price < 20", start.toString());
        assertEquals(List.of(asc("price"), desc("id"), asc("city")), all.order());
        assertEquals(5, all.skip());
        assertEquals(OptionalLong.of(10), all.limit());
        assertEquals(OptionalLong.empty(), start.limit());
        assertEquals(and(lt("price", 20), exists("city")), all.filter());
        // The count is no part of the text.
        assertNotEquals(all, Query.parse(all.toString()));
        assertEquals(all, Query.parse(all.toString()).withCount());
        assertEquals(all.hashCode(), Query.parse(all.toString()).withCount().hashCode());
        assertEquals("all limit 0", Query.select().limit(0).toString());
        assertEquals(start, start.after("x").after(null));
        assertEquals("price < 20 after no token", start.after("no token").toString());
        assertEquals(Query.select(), Query.parse(""));
        assertEquals(
                Query.select().orderBy(desc("order")).skip(3),
                Query.parse("* order by -\"order\" offset 3"));
        assertEquals(
                OptionalLong.of(Long.MAX_VALUE),
                Query.parse("all limit 18446744073709551615").limit());
    }

    @Test
    void aFilterKeepsItsValues() {
        byte[] bytes = {1, 2};
        List<Object> values = new ArrayList<>(List.of(1, 2));
        Filter filter = or(eq("a", bytes), in("b", values));
        bytes[0] = 9;
        values.add(3);
        assertEquals("a = x'0102' or b in (1, 2)", filter.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "price <", "price < 10 and", "prce <> 'a", "a in (1,", "not", "a = Oslo", "a = null", "(",
        "a = 99999999999999999999", "a like '%x'", "a & b"
    })
    void errorsOfTextsMarkThePlace(String text) {
        for (RuntimeException error : List.of(
                assertThrows(IllegalArgumentException.class, () -> Filter.parse(text)),
                assertThrows(IllegalArgumentException.class, () -> Query.parse(text)))) {
            String[] lines = error.getMessage().split("\n");
            assertEquals(text, lines[0]);
            assertTrue(lines[1].matches(" *\\^+"), error.getMessage());
            assertTrue(lines[2].length() > 5, error.getMessage());
        }
    }

    @Test
    void placesAreThoseOfTheText() {
        String message = assertThrows(
                IllegalArgumentException.class, () -> Query.parse("\u00e9 = 1 limit x")).getMessage();
        assertTrue(message.startsWith("\u00e9 = 1 limit x\n            ^\n"), message);
        assertThrows(IllegalArgumentException.class, () -> Filter.parse("a = 1 limit 3"));
        assertThrows(IllegalArgumentException.class, () -> Query.parse("a = 1 limit -3"));
        assertThrows(IllegalArgumentException.class, () -> Query.parse("all after x"));
    }

    @Test
    void wrongArgumentsAreRefused() {
        for (Object value : Arrays.asList(
                null, 'c', new Object(), new int[] {1}, BigInteger.ONE.shiftLeft(64),
                BigInteger.ONE.shiftLeft(63).negate().subtract(BigInteger.ONE), Instant.MAX,
                "\ud83d")) {
            assertThrows(IllegalArgumentException.class, () -> eq("a", value));
            assertThrows(IllegalArgumentException.class, () -> between("a", 1, value));
            assertThrows(
                    IllegalArgumentException.class, () -> in("a", Arrays.asList(1, value)));
        }
        assertThrows(NullPointerException.class, () -> eq(null, 1));
        assertThrows(IllegalArgumentException.class, () -> eq("\ude00", 1));
        assertThrows(IllegalArgumentException.class, () -> prefix("a", (String) null));
        assertThrows(NullPointerException.class, () -> Query.where(null));
        assertThrows(NullPointerException.class, () -> asc(null));
        assertThrows(IllegalArgumentException.class, () -> Query.select().skip(-1));
        assertThrows(IllegalArgumentException.class, () -> Query.select().limit(-1));
        assertThrows(IllegalArgumentException.class, () -> Facet.of("a").top(-1));
        assertThrows(NullPointerException.class, () -> Filter.parse(null));
    }

    @Test
    void nestingIsLimited() {
        Filter deep = exists("a");
        for (int level = 1; level < 127; level++) {
            Filter inner = deep;
            deep = level % 2 == 0 ? not(inner) : level % 4 == 1 ? and(inner, other(level))
                    : or(inner, other(level));
        }
        assertEquals(deep, Filter.parse(deep.toString()));
        Filter deepest = deep;
        assertThrows(IllegalArgumentException.class, () -> not(deepest));
        assertThrows(IllegalArgumentException.class, () -> or(deepest, exists("b")));
        Query query = Query.where(deepest);
        assertThrows(IllegalArgumentException.class, () -> query.and(exists("b")));
        // A text may be deeper: a parenthesis has an `or` and an `and`.
        String text = "a = 1";
        for (int level = 0; level < 120; level++) {
            text = "(a = 2 or a = 3 and " + text + ")";
        }
        Filter parsed = Filter.parse(text);
        assertEquals(parsed, Filter.parse(text));
        assertThrows(IllegalArgumentException.class, () -> not(parsed));
        for (String tooDeep : List.of("not ".repeat(1_000_000) + "a", "(".repeat(1_000_000))) {
            assertThrows(IllegalArgumentException.class, () -> Filter.parse(tooDeep));
        }
    }

    private static Filter other(int level) {
        return eq("b", level);
    }
}
