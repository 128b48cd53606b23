package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Ordered log stores and tables: ranges and prefixes of keys. */
class OrderedTest {
    @TempDir
    Path dir;

    private LogStore open() {
        LogOptions options = LogOptions.defaults().ordered(true).segmentBytes(32 << 10);
        return LogStore.open(dir.resolve("store"), options);
    }

    private static List<String> keys(EntryIterator records) {
        try (Stream<Entry> all = records.stream()) {
            return all.map(entry -> text(entry.key())).toList();
        }
    }

    @Test
    void rangesAndPrefixes() {
        try (LogStore store = open()) {
            for (String key : List.of("b2", "a1", "c", "a2", "b1", "")) {
                store.put(bytes(key), bytes("value of " + key));
            }
            assertTrue(store.isOrdered());
            assertTrue(store.stats().isOrdered());
            List<String> all = List.of("", "a1", "a2", "b1", "b2", "c");
            assertEquals(all, keys(store.range(null, null)));
            assertEquals(List.of("a2", "b1"), keys(store.range(bytes("a2"), bytes("b2"))));
            assertEquals(List.of("", "a1"), keys(store.range(null, bytes("a2"))));
            assertEquals(List.of("b2", "c"), keys(store.range(bytes("b1a"), null)));
            assertEquals(List.of(), keys(store.range(bytes("b"), bytes("a"))));
            assertEquals(List.of(), keys(store.range(null, new byte[0])));
            assertEquals(List.of("c", "b2"), keys(store.reverseRange(bytes("b2"), null)));
            assertEquals(List.of("a1", ""), keys(store.reverseRange(null, bytes("a2"))));
            assertEquals(List.of("b1", "b2"), keys(store.prefix(bytes("b"))));
            assertEquals(List.of("b2", "b1"), keys(store.reversePrefix(bytes("b"))));
            assertEquals(all, keys(store.prefix(new byte[0])));
            assertEquals(List.of(), keys(store.prefix(bytes("c1"))));
            assertThrows(NullPointerException.class, () -> store.prefix(null));
            try (EntryIterator records = store.reversePrefix(bytes("a"))) {
                assertArrayEquals(bytes("value of a2"), records.next().value());
            }
        }
    }

    @Test
    void bytesAreUnsigned() {
        try (LogStore store = open()) {
            byte[][] sorted = {{0}, {0, 0}, {127}, {(byte) 128}, {-1}, {-1, -1}};
            for (int i = sorted.length - 1; i >= 0; i--) {
                store.put(sorted[i], sorted[i]);
            }
            try (EntryIterator records = store.range(null, null)) {
                for (byte[] key : sorted) {
                    assertArrayEquals(key, records.next().key());
                }
                assertFalse(records.hasNext());
            }
            try (EntryIterator records = store.prefix(new byte[] {-1})) {
                assertArrayEquals(sorted[4], records.next().key());
                assertArrayEquals(sorted[5], records.next().key());
                assertFalse(records.hasNext());
            }
        }
    }

    /** Ranges of many keys over several segments, while the store is changed. */
    @Test
    void rangesShowTheMomentOfTheirCall() {
        Random random = new Random(11);
        NavigableMap<String, String> expected = new TreeMap<>();
        try (LogStore store = open()) {
            for (int i = 0; i < 20_000; i++) {
                String key = String.format("%05d", random.nextInt(100_000));
                expected.put(key, "value " + i);
                store.put(bytes(key), bytes("value " + i));
            }
            try (Snapshot snapshot = store.snapshot()) {
                EntryIterator early = store.range(bytes("2"), bytes("7"));
                for (int i = 0; i < 100_000; i += 3) {
                    store.delete(bytes(String.format("%05d", i)));
                }
                store.compact(0);
                NavigableMap<String, String> middle = expected.subMap("2", true, "7", false);
                assertEquals(List.copyOf(middle.keySet()), keys(early));
                assertEquals(
                        List.copyOf(middle.keySet()), keys(snapshot.range(bytes("2"), bytes("7"))));
                assertEquals(
                        List.copyOf(middle.descendingKeySet()),
                        keys(snapshot.reverseRange(bytes("2"), bytes("7"))));
                NavigableMap<String, String> some = expected.subMap("31", true, "32", false);
                assertEquals(List.copyOf(some.keySet()), keys(snapshot.prefix(bytes("31"))));
                assertEquals(
                        List.copyOf(some.descendingKeySet()),
                        keys(snapshot.reversePrefix(bytes("31"))));
                try (EntryIterator records = snapshot.range(null, null)) {
                    expected.forEach((key, value) -> {
                        Entry entry = records.next();
                        assertEquals(key, text(entry.key()));
                        assertEquals(value, text(entry.value()));
                    });
                    assertFalse(records.hasNext());
                }
            }
            expected.keySet().removeIf(key -> Integer.parseInt(key) % 3 == 0);
            assertEquals(List.copyOf(expected.keySet()), keys(store.range(null, null)));
        }
    }

    @Test
    void aRangeStaysUsableWhenTheStoreIsClosed() {
        LogStore store = open();
        store.put(bytes("a"), bytes("1"));
        Snapshot snapshot = store.snapshot();
        EntryIterator ofStore = store.range(null, null);
        EntryIterator ofSnapshot = snapshot.prefix(bytes("a"));
        snapshot.close();
        store.close();
        assertEquals(List.of("a"), keys(ofStore));
        assertEquals(List.of("a"), keys(ofSnapshot));
        assertThrows(IllegalStateException.class, () -> store.range(null, null));
        assertThrows(IllegalStateException.class, () -> snapshot.prefix(bytes("a")));
        assertThrows(IllegalStateException.class, store::isOrdered);
    }

    @Test
    void aStoreKeepsItsKind() {
        open().close();
        try (LogStore again = LogStore.open(dir.resolve("store"))) {
            assertTrue(again.isOrdered());
        }
        Path path = dir.resolve("other");
        try (LogStore other = LogStore.open(path)) {
            assertFalse(other.isOrdered());
            other.put(bytes("a"), bytes("1"));
            String message =
                    assertThrows(IllegalArgumentException.class, () -> other.range(null, null))
                            .getMessage();
            assertTrue(message.contains("not ordered"), message);
            assertThrows(IllegalArgumentException.class, () -> other.reversePrefix(bytes("a")));
            try (Snapshot snapshot = other.snapshot()) {
                assertThrows(
                        IllegalArgumentException.class, () -> snapshot.prefix(bytes("a")));
            }
        }
        LogOptions ordered = LogOptions.defaults().ordered(true);
        assertThrows(IllegalArgumentException.class, () -> LogStore.open(path, ordered));
    }

    @Test
    void tablesInKeyOrder() {
        Path path = dir.resolve("ordered.firn");
        TreeMap<String, String> model = new TreeMap<>();
        Random random = new Random(5);
        for (int i = 0; i < 30_000; i++) {
            model.put("k" + random.nextInt(1_000_000), "value of " + i);
        }
        TableBuilder.Options options = TableBuilder.Options.defaults().inKeyOrder(true);
        try (TableBuilder builder = TableBuilder.create(path, options)) {
            model.descendingMap().forEach((key, value) -> builder.add(bytes(key), bytes(value)));
            builder.finish();
        }
        try (Table table = Table.open(path)) {
            assertTrue(table.isOrdered());
            List<String> all = List.copyOf(model.keySet());
            List<String> reversed = List.copyOf(model.descendingKeySet());
            assertEquals(all, keys(table.iterator()));
            assertEquals(all, keys(table.range(null, null)));
            assertEquals(reversed, keys(table.reverseRange(null, null)));
            for (int i = 0; i < 20; i++) {
                String from = "k" + random.nextInt(1_000_000);
                String to = "k" + random.nextInt(1_000_000);
                NavigableMap<String, String> tail = model.tailMap(from, true);
                List<String> between =
                        tail.keySet().stream().filter(key -> key.compareTo(to) < 0).toList();
                assertEquals(between, keys(table.range(bytes(from), bytes(to))));
                List<String> after = List.copyOf(tail.descendingKeySet());
                assertEquals(after, keys(table.reverseRange(bytes(from), null)));
                String prefix = from.substring(0, 3);
                List<String> those = all.stream().filter(key -> key.startsWith(prefix)).toList();
                assertEquals(those, keys(table.prefix(bytes(prefix))));
                try (EntryIterator records = table.reversePrefix(bytes(prefix))) {
                    Entry last = records.next();
                    assertEquals(those.get(those.size() - 1), text(last.key()));
                    assertEquals(model.get(text(last.key())), text(last.value()));
                }
            }
            assertThrows(NullPointerException.class, () -> table.prefix(null));
        }
        Path hashed = dir.resolve("hashed.firn");
        try (TableBuilder builder = TableBuilder.create(hashed)) {
            builder.add(bytes("a"), bytes("1"));
            builder.finish();
        }
        try (Table table = Table.open(hashed)) {
            assertFalse(table.isOrdered());
            assertThrows(IllegalArgumentException.class, () -> table.range(null, null));
        }
    }
}
