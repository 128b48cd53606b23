package io.firndb;

import static io.firndb.Tests.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class DocumentTest {
    private static final BigInteger MOST = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);

    static Stream<Arguments> values() {
        return Stream.of(
                Arguments.of(true, true),
                Arguments.of((byte) -1, -1L),
                Arguments.of((short) 300, 300L),
                Arguments.of(Integer.MIN_VALUE, (long) Integer.MIN_VALUE),
                Arguments.of(Long.MAX_VALUE, Long.MAX_VALUE),
                Arguments.of(0.5f, 0.5),
                Arguments.of(Double.NEGATIVE_INFINITY, Double.NEGATIVE_INFINITY),
                Arguments.of("", ""),
                Arguments.of("caf\u00e9 \ud83d\ude00", "caf\u00e9 \ud83d\ude00"),
                Arguments.of(BigInteger.TEN, 10L),
                Arguments.of(MOST, MOST),
                Arguments.of(Instant.parse("2024-05-01T08:30:00.123456789Z"),
                        Instant.parse("2024-05-01T08:30:00.123456Z")),
                Arguments.of(Instant.parse("1969-12-31T23:59:59.9999999Z"),
                        Instant.parse("1969-12-31T23:59:59.999999Z")),
                Arguments.of(Values.instant(Long.MIN_VALUE), Values.instant(Long.MIN_VALUE)),
                Arguments.of(
                        Values.instant(Long.MAX_VALUE).plusNanos(999),
                        Values.instant(Long.MAX_VALUE)));
    }

    @ParameterizedTest
    @MethodSource("values")
    void valuesHaveTheClassInWhichTheyAreReadBack(Object value, Object expected) {
        Document document = new Document().set("f", value);
        assertEquals(List.of(expected), document.values("f"));
        Packed packed = new Packed(4);
        document.pack(packed);
        Unpacked from = new Unpacked(Arrays.copyOf(packed.bytes, packed.length));
        assertEquals(0, from.nextBytes().length);
        assertEquals(1, from.nextInt());
        assertEquals("f", from.nextText());
        assertEquals(expected, from.nextValue());
        assertTrue(from.isOver());
    }

    @Test
    void setReplacesAndAddAdds() {
        Document document = new Document().set("a", 1).set("a", 2).add("a", 3).add("a", 4);
        assertEquals(List.of(2L, 3L, 4L), document.values("a"));
        assertEquals(List.of("x", "y"), document.set("a", List.of("x", "y")).values("a"));
        assertEquals(List.of("x", "y", "z"), document.add("a", "z").values("a"));
        assertEquals(List.of(), document.set("a", List.of()).values("a"));
        assertEquals(List.of("w"), document.add("a", "w").values("a"));
        assertEquals(List.of(), document.set("a", null).values("a"));
        assertEquals(List.of(5L), document.add("a", 5).values("a"));
        assertEquals(List.of(), document.values("b"));
        document.payload(bytes("p")).clear();
        assertEquals(List.of(), document.values("a"));
        assertEquals(0, document.payload().length);
    }

    @Test
    void documentsOfMaps() {
        Map<String, Object> values = new HashMap<>();
        values.put("city", "Oslo");
        values.put("price", null);
        values.put("tags", List.of("new", "sea"));
        Document document = Document.of(values);
        assertEquals(List.of("Oslo"), document.values("city"));
        assertEquals(List.of(), document.values("price"));
        assertEquals(List.of("new", "sea"), document.values("tags"));
        String text = document.payload(bytes("{}")).toString();
        assertTrue(text.contains("city=Oslo") && text.contains("tags=[new, sea]"), text);
        assertTrue(text.contains("payload of 2 bytes"), text);
        assertEquals("Document[b=[1, 2], payload of 0 bytes]",
                new Document().set("b", new byte[] {1, 2}).toString());
    }

    @Test
    void arraysAndBuffersAreCopied() {
        byte[] value = {1, 2, 3};
        byte[] payload = {4, 5};
        Document document = new Document().set("f", value).payload(payload);
        value[0] = 9;
        payload[0] = 9;
        document.payload()[1] = 9;
        ((byte[]) document.values("f").get(0))[1] = 9;
        assertArrayEquals(new byte[] {1, 2, 3}, (byte[]) document.values("f").get(0));
        assertArrayEquals(new byte[] {4, 5}, document.payload());
        for (ByteBuffer buffer : List.of(
                ByteBuffer.wrap(bytes("abcdef")), ByteBuffer.wrap(bytes("abcdef")).asReadOnlyBuffer(),
                ByteBuffer.allocateDirect(6).put(bytes("abcdef")).flip())) {
            buffer.position(2).limit(5);
            assertArrayEquals(bytes("cde"), document.payload(buffer).payload());
            assertEquals(2, buffer.position());
            byte[] found = (byte[]) document.set("f", buffer).values("f").get(0);
            assertArrayEquals(bytes("cde"), found);
            Packed packed = new Packed(1);
            Values.pack(packed, buffer);
            Unpacked from = new Unpacked(Arrays.copyOf(packed.bytes, packed.length));
            assertArrayEquals(bytes("cde"), (byte[]) from.nextValue());
            assertEquals(2, buffer.position());
        }
    }

    static Stream<Object> wrongValues() {
        return Stream.of(
                'c', new Object(), new int[1], Map.of(), List.of(List.of()),
                Arrays.asList("a", null), MOST.add(BigInteger.ONE), MOST.negate(), Instant.MAX,
                Instant.MIN, Values.instant(Long.MAX_VALUE).plusNanos(1000),
                Values.instant(Long.MIN_VALUE).minusNanos(1));
    }

    @ParameterizedTest
    @MethodSource("wrongValues")
    void otherClassesAreRefused(Object value) {
        Document document = new Document().set("f", 1);
        assertThrows(IllegalArgumentException.class, () -> document.set("f", value));
        assertThrows(IllegalArgumentException.class, () -> document.add("f", value));
        assertEquals(List.of(1L), document.values("f"));
        assertThrows(IllegalArgumentException.class, () -> document.set(null, 1));
        assertThrows(IllegalArgumentException.class, () -> document.add("f", null));
    }
}
