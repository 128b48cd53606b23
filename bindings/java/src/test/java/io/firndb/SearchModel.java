package io.firndb;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.function.Predicate;

/** A collection of random documents, and the same documents as a list of Java. */
final class SearchModel {
    static final Schema SCHEMA = Schema.of(
            Field.of("id", FieldType.U64).full(),
            Field.of("city", FieldType.STRING).full().nullable(),
            Field.of("price", FieldType.F64).full().nullable(),
            Field.of("rooms", FieldType.I64).full().nullable(),
            Field.of("big", FieldType.U64).full().nullable(),
            Field.of("sold", FieldType.BOOL).full().nullable(),
            Field.of("seen", FieldType.TIMESTAMP).full().nullable(),
            Field.of("key", FieldType.BYTES).full().nullable(),
            Field.of("tags", FieldType.STRING).filterable().stored().multi(),
            Field.of("sizes", FieldType.I64).filterable().stored().multi());

    private static final List<Instant> TIMES = List.of(
            Instant.EPOCH, Instant.parse("2024-05-01T08:30:00.000001Z"),
            Instant.parse("0001-01-01T00:00:00Z"), Values.instant(Long.MIN_VALUE),
            Values.instant(Long.MAX_VALUE), Values.instant(-1));

    /** Values of each field: few, so that conditions match, and among them the extremes. */
    private static final Map<String, List<?>> DOMAINS = Map.of(
            "city", List.of("", "Oslo", "Bergen", "\u00c5s", "\ud83d\ude00", "Os", "\uffee"),
            "price", List.of(
                    0.0, 1.5, -2.25, 1e300, Double.MIN_VALUE, Double.NEGATIVE_INFINITY,
                    Double.POSITIVE_INFINITY, 3.0),
            "rooms", List.of(0L, 1L, 2L, 3L, -1L, Long.MIN_VALUE, Long.MAX_VALUE),
            "big", List.of(0L, 1L, Long.MAX_VALUE, BigInteger.ONE.shiftLeft(63), unsigned(-1)),
            "sold", List.of(true, false),
            "seen", TIMES,
            "key", List.of(
                    new byte[0], new byte[] {0}, new byte[] {0, 1}, new byte[] {-1},
                    new byte[] {-1, -1}, new byte[300]),
            "tags", List.of("", "sea", "new", "seaside", "\u00e9t\u00e9"),
            "sizes", List.of(1L, 2L, 5L, 9L, Long.MIN_VALUE));

    /** A document as a query finds it: its values are distinct and ascend. */
    record Doc(long hit, Map<String, List<Object>> values, byte[] payload) {
        List<Object> of(String field) {
            return values.getOrDefault(field, List.of());
        }

        Object first(String field) {
            return of(field).isEmpty() ? null : of(field).get(0);
        }
    }

    /** A filter, and what it means. */
    record Condition(Filter filter, Predicate<Doc> matches) {}

    final Collection collection;
    /** The documents in the order of partitions. */
    final List<Doc> docs = new ArrayList<>();
    private final Random random;

    /** Makes a collection of three partitions in a directory. */
    SearchModel(Path dir, long seed, int documents) {
        random = new Random(seed);
        collection = Collection.create(dir);
        try (Change change = collection.change()) {
            for (int partition = 0; partition < 3; partition++) {
                PartitionBuilder builder = PartitionBuilder.create(SCHEMA);
                for (int i = 0; i < documents / 3; i++) {
                    builder.add(document((long) partition << 32 | i));
                }
                change.put("part-" + partition, builder);
            }
            change.commit();
        }
    }

    private static Number unsigned(long bits) {
        return Values.unsigned(bits);
    }

    private Document document(long hit) {
        Document document = new Document();
        Map<String, List<Object>> values = new LinkedHashMap<>();
        long id = (hit * 0x9e3779b97f4a7c15L) >>> 20;
        document.set("id", id);
        values.put("id", List.of(id));
        for (String field : DOMAINS.keySet()) {
            if (!isMultiValued(field)) {
                if (random.nextInt(5) > 0) {
                    Object value = pick(DOMAINS.get(field));
                    document.set(field, value);
                    values.put(field, List.of(value));
                }
                continue;
            }
            TreeSet<Object> several = new TreeSet<>(SearchModel::compare);
            for (int n = random.nextInt(4); n > 0; n--) {
                Object value = pick(DOMAINS.get(field));
                document.add(field, value);
                several.add(value);
            }
            values.put(field, List.copyOf(several));
        }
        byte[] payload = new byte[random.nextInt(3) * 20];
        random.nextBytes(payload);
        document.payload(payload);
        docs.add(new Doc(hit, values, payload));
        return document;
    }

    static boolean isMultiValued(String field) {
        return field.equals("tags") || field.equals("sizes");
    }

    private <T> T pick(List<T> list) {
        return list.get(random.nextInt(list.size()));
    }

    String pickField() {
        return pick(List.of("city", "price", "rooms", "big", "sold", "seen", "key", "tags",
                "sizes"));
    }

    int below(int bound) {
        return random.nextInt(bound);
    }

    /** The order of the values of a field. Numbers of all types are compared exactly. */
    static int compare(Object a, Object b) {
        if (a instanceof String text) {
            return Arrays.compareUnsigned(text.getBytes(UTF_8), ((String) b).getBytes(UTF_8));
        }
        if (a instanceof byte[] bytes) {
            return Arrays.compareUnsigned(bytes, (byte[]) b);
        }
        if (a instanceof Boolean truth) {
            return truth.compareTo((Boolean) b);
        }
        if (a instanceof Instant time) {
            return time.compareTo((Instant) b);
        }
        double x = ((Number) a).doubleValue();
        double y = ((Number) b).doubleValue();
        if (Double.isInfinite(x) || Double.isInfinite(y)) {
            return Double.compare(x, y);
        }
        return exact(a).compareTo(exact(b));
    }

    private static BigDecimal exact(Object number) {
        if (number instanceof Double || number instanceof Float) {
            return new BigDecimal(((Number) number).doubleValue());
        }
        return new BigDecimal(number.toString());
    }

    /** A value to compare a field with; for numbers often one of another type. */
    private Object literal(String field) {
        Object value = pick(DOMAINS.get(field));
        boolean isNumber = value instanceof Number;
        if (isNumber && random.nextInt(3) == 0) {
            return pick(List.of(
                    1, (short) 2, (byte) 3, 2.5f, 1.5, -0.5, 1e19, unsigned(-1), -1L,
                    BigInteger.TWO));
        }
        return value;
    }

    Condition condition(int depth) {
        if (depth == 0 || random.nextInt(3) == 0) {
            return leaf();
        }
        if (random.nextInt(4) == 0) {
            Condition inner = condition(depth - 1);
            return new Condition(Filter.not(inner.filter()), inner.matches().negate());
        }
        List<Condition> parts = new ArrayList<>();
        for (int n = random.nextInt(4); n >= 0; n--) {
            parts.add(condition(depth - 1));
        }
        Filter[] filters = parts.stream().map(Condition::filter).toArray(Filter[]::new);
        if (random.nextBoolean()) {
            return new Condition(
                    Filter.and(filters), doc -> parts.stream().allMatch(p -> p.matches().test(doc)));
        }
        return new Condition(
                Filter.or(filters), doc -> parts.stream().anyMatch(p -> p.matches().test(doc)));
    }

    private Condition leaf() {
        String field = pickField();
        Object value = literal(field);
        Object other = literal(field);
        switch (random.nextInt(10)) {
            case 0:
                return any(Filter.eq(field, value), field, v -> compare(v, value) == 0);
            case 1:
                return any(Filter.lt(field, value), field, v -> compare(v, value) < 0);
            case 2:
                return any(Filter.lte(field, value), field, v -> compare(v, value) <= 0);
            case 3:
                return any(Filter.gt(field, value), field, v -> compare(v, value) > 0);
            case 4:
                return any(Filter.gte(field, value), field, v -> compare(v, value) >= 0);
            case 5:
                return any(
                        Filter.in(field, value, other), field,
                        v -> compare(v, value) == 0 || compare(v, other) == 0);
            case 6:
                return any(
                        Filter.between(field, value, other), field,
                        v -> compare(v, value) >= 0 && compare(v, other) <= 0);
            case 7:
                return any(Filter.exists(field), field, v -> true);
            case 8:
                return new Condition(Filter.all(), doc -> true);
            default:
                return prefix();
        }
    }

    private Condition prefix() {
        if (random.nextInt(3) == 0) {
            byte[] start = pick(List.of(new byte[0], new byte[] {0}, new byte[] {-1}));
            return any(
                    Filter.prefix("key", start), "key",
                    v -> ((byte[]) v).length >= start.length
                            && Arrays.equals((byte[]) v, 0, start.length, start, 0, start.length));
        }
        String start = pick(List.of("", "s", "sea", "O", "\u00e9"));
        String field = pick(List.of("city", "tags"));
        return any(Filter.prefix(field, start), field, v -> ((String) v).startsWith(start));
    }

    /** A condition that holds if it does for one of the values. */
    private static Condition any(Filter filter, String field, Predicate<Object> matches) {
        return new Condition(filter, doc -> doc.of(field).stream().anyMatch(matches));
    }

    /** The matches of a condition in an order. */
    List<Doc> matches(Condition condition, List<Order> order) {
        Comparator<Doc> comparator = (a, b) -> 0;
        for (Order key : order) {
            comparator = comparator.thenComparing((a, b) -> {
                Object x = a.first(key.field());
                Object y = b.first(key.field());
                if (x == null || y == null) {
                    return Boolean.compare(x == null, y == null);
                }
                return key.isDescending() ? compare(y, x) : compare(x, y);
            });
        }
        return docs.stream().filter(condition.matches()).sorted(comparator).toList();
    }

    List<Order> order() {
        List<Order> order = new ArrayList<>();
        for (int n = random.nextInt(3); n > 0; n--) {
            String field = pickField();
            if (!isMultiValued(field)) {
                order.add(new Order(field, random.nextBoolean()));
            }
        }
        return order;
    }

    /** Whether values that were read are those of the model: arrays are equal by their elements. */
    static boolean same(Object a, Object b) {
        return a instanceof List<?> x && b instanceof List<?> y
                ? Arrays.deepEquals(x.toArray(), y.toArray())
                : Arrays.deepEquals(new Object[] {a}, new Object[] {b});
    }
}
