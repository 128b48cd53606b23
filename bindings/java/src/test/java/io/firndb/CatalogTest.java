package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CatalogTest {
    private static final PublishOptions DEFAULTS = PublishOptions.defaults();

    @TempDir
    Path dir;

    private Catalog catalog;

    @BeforeEach
    void create() {
        catalog = Catalog.create(dir.resolve("catalog"));
    }

    @AfterEach
    void close() {
        catalog.close();
    }

    /** The file of a table with one key. */
    private Path table(String value) {
        Path file = dir.resolve(value + ".firn");
        try (TableBuilder builder = TableBuilder.create(file)) {
            builder.add(bytes("key"), bytes(value));
            builder.finish();
        }
        return file;
    }

    private Version publish(String value) {
        return catalog.publish("words", table(value)).version();
    }

    @Test
    void aVersionSaysWhatWasPublished() throws Exception {
        Instant before = Instant.now().minusSeconds(1);
        Path file = table("one");
        Catalog.Published published = catalog.publish(
                "words", file, DEFAULTS.label("source", "caf\u00e9 \ud83d\ude00").label("a", ""));
        Version version = published.version();
        assertEquals("words", version.name());
        assertEquals(1, version.number());
        assertEquals(32, version.id().length());
        assertEquals(0, version.parent());
        assertNull(version.parentId());
        assertEquals(0, version.restores());
        assertTrue(version.time().isAfter(before) && version.time().isBefore(Instant.now()));
        assertEquals(Version.Kind.TABLE, version.kind());
        assertNull(version.schema());
        assertEquals(1, version.statistics().get("records"));
        assertEquals(Map.of("a", "", "source", "caf\u00e9 \ud83d\ude00"), version.labels());
        Version.File stored = version.files().get(0);
        assertEquals("one.firn", stored.name());
        assertEquals(Files.size(file), stored.bytes());
        assertEquals(Files.size(file), version.bytes());
        assertEquals(32, stored.content().length());
        assertEquals(64, stored.blake3().length());
        assertEquals(1, stored.since());
        assertEquals(1, published.sentFiles());
        assertEquals(Files.size(file), published.sentBytes());
        assertEquals(0, published.repairedFiles());
        assertEquals(version, catalog.newest("words"));
        assertEquals(version, catalog.version("words", 1));
        assertThrows(UnsupportedOperationException.class, () -> version.files().clear());
        assertThrows(UnsupportedOperationException.class, () -> version.labels().clear());
        assertThrows(UnsupportedOperationException.class, () -> version.statistics().clear());

        Version next = publish("two");
        assertEquals(2, next.number());
        assertEquals(1, next.parent());
        assertEquals(version.id(), next.parentId());
        assertEquals(Map.of(), next.labels());
        assertEquals(List.of(1L, 2L), catalog.versions("words"));
        assertEquals(List.of("words"), catalog.names());
        assertEquals(dir.resolve("catalog").toAbsolutePath(), catalog.path());
    }

    /** Answers as web servers do that list folders in JSON and support ranges. */
    private static void serve(Path root, HttpExchange exchange) throws IOException {
        try (exchange) {
            Path file = root.resolve(exchange.getRequestURI().getPath().substring(1));
            if (!Files.exists(file)) {
                exchange.sendResponseHeaders(404, -1);
                return;
            }
            byte[] body;
            int status = 200;
            if (Files.isDirectory(file)) {
                try (Stream<Path> entries = Files.list(file)) {
                    body = entries.map(entry -> '"' + entry.getFileName().toString()
                                    + (Files.isDirectory(entry) ? "/\"" : "\""))
                            .collect(Collectors.joining(",", "[", "]"))
                            .getBytes(StandardCharsets.UTF_8);
                }
            } else {
                body = Files.readAllBytes(file);
                String range = exchange.getRequestHeaders().getFirst("Range");
                if (range != null) {
                    String[] bounds = range.substring("bytes=".length()).split("-");
                    int first = Integer.parseInt(bounds[0]);
                    int end = Math.min(Integer.parseInt(bounds[1]) + 1, body.length);
                    exchange.getResponseHeaders().set(
                            "Content-Range",
                            "bytes " + first + "-" + (end - 1) + "/" + body.length);
                    body = Arrays.copyOfRange(body, first, end);
                    status = 206;
                }
            }
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
        }
    }

    @Test
    void aCatalogOnAWebServerIsRead() throws IOException {
        publish("one");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> serve(dir, exchange));
        server.start();
        URI location = URI.create(
                "http://127.0.0.1:" + server.getAddress().getPort() + "/catalog");
        try (Catalog remote = Catalog.open(location)) {
            assertNull(remote.path());
            assertEquals(catalog.newest("words"), remote.newest("words"));
            assertThrows(NotFoundException.class, () -> remote.newest("absent"));
            try (CatalogReader reader = remote.reader("words", dir.resolve("cache"))) {
                publish("two");
                assertTrue(reader.refresh());
                try (Generation generation = reader.current()) {
                    assertEquals("two", text(generation.table().get(bytes("key"))));
                }
            }
            Path file = dir.resolve("one.firn");
            assertThrows(
                    IllegalArgumentException.class, () -> remote.publish("words", file));
            server.stop(0);
            assertThrows(FirnIOException.class, () -> remote.newest("words"));
        } finally {
            server.stop(0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"catalog", "file:///catalog", "c:catalog", "ftp://host/catalog"})
    void aDirectoryIsNotOpenedByItsUri(String location) {
        assertThrows(
                IllegalArgumentException.class, () -> Catalog.open(URI.create(location)));
    }

    @Test
    void allKindsOfTablesArePublished() {
        Path approximate = dir.resolve("approximate");
        try (ApproximateBuilder builder = ApproximateBuilder.create(
                approximate, ApproximateBuilder.Options.defaults().valueWidth(1))) {
            builder.add(bytes("key"), new byte[] {7});
            builder.finish();
        }
        Path shards = dir.resolve("shards");
        Tests.shards(shards, 3, 100);
        assertEquals(
                Version.Kind.APPROXIMATE_TABLE,
                catalog.publish("a", approximate).version().kind());
        Version sharded = catalog.publish("b", shards, DEFAULTS).version();
        assertEquals(Version.Kind.SHARDED_TABLE, sharded.kind());
        assertEquals(3, sharded.files().size());
        assertEquals(100, sharded.statistics().get("records"));
        assertEquals(List.of("a", "b"), catalog.names());
    }

    @Test
    void nothingIsPublishedIfNothingHasChanged() {
        Path file = table("one");
        Optional<Catalog.Published> first = catalog.publishIfChanged("words", file, DEFAULTS);
        assertEquals(1, first.orElseThrow().version().number());
        assertEquals(Optional.empty(), catalog.publishIfChanged("words", file, DEFAULTS));
        assertEquals(
                2, catalog.publishIfChanged("words", table("two"), DEFAULTS).orElseThrow()
                        .version().number());
        assertEquals(0, catalog.publish("words", dir.resolve("two.firn")).sentFiles());
    }

    @Test
    void progressIsReportedAndCanCancel() {
        Path shards = dir.resolve("shards");
        Tests.shards(shards, 100, 1000);
        List<Long> done = new ArrayList<>();
        List<Long> totals = new ArrayList<>();
        List<RuntimeException> refused = new ArrayList<>();
        Thread caller = Thread.currentThread();
        PublishOptions watched = DEFAULTS.progress((bytes, total) -> {
            assertSame(caller, Thread.currentThread());
            done.add(bytes);
            totals.add(total);
            if (refused.isEmpty()) {
                refused.add(assertThrows(IllegalStateException.class, catalog::close));
                assertEquals(List.of(), catalog.names().stream().filter("x"::equals).toList());
            }
            return true;
        });
        Version version = catalog.publish("words", shards, watched).version();
        assertEquals(100, done.size());
        assertEquals(version.bytes(), done.get(99));
        assertEquals(List.of(version.bytes()), totals.stream().distinct().toList());
        assertEquals(1, refused.size());

        int[] calls = {0};
        PublishOptions cancelled = DEFAULTS.progress((bytes, total) -> ++calls[0] < 5);
        assertThrows(CancelledException.class, () -> catalog.publish("other", shards, cancelled));
        assertEquals(5, calls[0]);
        assertThrows(NotFoundException.class, () -> catalog.newest("other"));
        RuntimeException own = new RuntimeException("mine");
        PublishOptions failing = DEFAULTS.progress((bytes, total) -> {
            throw own;
        });
        assertSame(own, assertThrows(
                RuntimeException.class, () -> catalog.publish("other", shards, failing)));
        assertThrows(NotFoundException.class, () -> catalog.newest("other"));
        // Nothing of it is in the way of the next publisher.
        assertEquals(1, catalog.publish("other", shards).version().number());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void stagingAndVerifyingCanBeCancelled(boolean throwing) {
        RuntimeException own = new RuntimeException("mine");
        Catalog.Progress progress = (done, total) -> {
            assertEquals(done, total); // There is one file.
            if (throwing) {
                throw own;
            }
            return false;
        };
        publish("one");
        RuntimeException staging = assertThrows(
                RuntimeException.class, () -> catalog.stage("words", table("two"), progress));
        RuntimeException verifying = assertThrows(
                RuntimeException.class, () -> catalog.verify("words", 1, progress));
        for (RuntimeException error : List.of(staging, verifying)) {
            assertEquals(throwing, error == own);
            assertEquals(!throwing, error instanceof CancelledException);
        }
    }

    @Test
    void shardsAreStagedAndPublished() throws Exception {
        List<Path> shards = Tests.shards(dir.resolve("shards"), 3, 1000);
        List<Staged> staged = new ArrayList<>();
        long[] progress = new long[2];
        for (Path shard : shards) {
            staged.add(catalog.stage("words", shard, (done, total) -> {
                progress[0] = done;
                progress[1] = total;
                return true;
            }));
            assertEquals(Files.size(shard), progress[0]);
            assertEquals(Files.size(shard), progress[1]);
        }
        assertThrows(NotFoundException.class, () -> catalog.newest("words"));
        Staged first = staged.get(0);
        assertEquals("words", first.name());
        assertTrue(first.object().startsWith("words/staged/"), first.object());
        assertEquals("shard-00000.table", first.fileName());
        assertEquals(Files.size(shards.get(0)), first.bytes());
        assertEquals(64, first.blake3().length());
        assertEquals(Version.Kind.TABLE, first.kind());
        assertNull(first.schema());
        assertEquals(1000, staged.stream().mapToLong(Staged::records).sum());
        assertEquals(first.records(), first.statistics().get("records"));

        List<Staged> swapped = List.of(staged.get(1), staged.get(0), staged.get(2));
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.publishStaged("words", swapped, DEFAULTS));
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.publishStaged("words", List.of(), DEFAULTS));
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.publishStaged("others", staged, DEFAULTS));
        Catalog.Published published =
                catalog.publishStaged("words", staged, DEFAULTS.verify(true).label("a", "b"));
        assertEquals(Version.Kind.SHARDED_TABLE, published.version().kind());
        assertEquals(Map.of("a", "b"), published.version().labels());
        assertEquals(3, published.sentFiles());
        // The same objects can be published again; one of them alone is a table.
        assertEquals(0, catalog.publishStaged("words", staged, DEFAULTS).sentFiles());
        assertEquals(
                Version.Kind.TABLE,
                catalog.publishStaged("words", List.of(staged.get(1)), DEFAULTS).version().kind());
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.stage("words", dir.resolve("shards")));
        assertThrows(NotFoundException.class, () -> catalog.stage("words", dir.resolve("none")));
    }

    @Test
    void stagedFilesAreTextAndSerializable() throws Exception {
        Staged staged = catalog.stage("words", table("one"));
        assertEquals(1, staged.toString().lines().count());
        Staged parsed = Staged.parse("  " + staged + "\n");
        Staged read = (Staged) deserialize(serialize(staged));
        for (Staged same : List.of(parsed, read)) {
            assertEquals(staged, same);
            assertEquals(staged.hashCode(), same.hashCode());
            assertEquals(staged.toString(), same.toString());
            assertEquals("one.firn", same.fileName());
            assertEquals(1, same.records());
        }
        Staged other = catalog.stage("words", dir.resolve("one.firn"));
        assertNotEquals(staged, other); // It is another object of the catalog.
        assertEquals(
                1, catalog.publishStaged("words", List.of(read), DEFAULTS).version().number());

        for (String wrong : List.of("", "{}", staged.toString().replace("words", "sword"))) {
            assertThrows(CorruptException.class, () -> Staged.parse(wrong));
        }
        assertThrows(NullPointerException.class, () -> Staged.parse(null));
        byte[] forged = new String(serialize(staged), StandardCharsets.ISO_8859_1)
                .replace("words", "sword").getBytes(StandardCharsets.ISO_8859_1);
        Staged changed = (Staged) deserialize(forged);
        assertThrows(CorruptException.class, changed::bytes);
        assertThrows(
                CorruptException.class,
                () -> catalog.publishStaged("sword", List.of(changed), DEFAULTS));
    }

    private static byte[] serialize(Object object) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(object);
        }
        return bytes.toByteArray();
    }

    private static Object deserialize(byte[] bytes) throws Exception {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return in.readObject();
        }
    }

    @Test
    void versionsAreRolledBackPinnedAndCleaned() {
        for (String value : List.of("one", "two", "three", "four")) {
            publish(value);
        }
        Version restored = catalog.rollback("words", 2, DEFAULTS.label("why", "bad")).version();
        assertEquals(5, restored.number());
        assertEquals(2, restored.restores());
        assertEquals(4, restored.parent());
        assertEquals(
                catalog.version("words", 2).files().get(0).blake3(),
                restored.files().get(0).blake3());
        assertThrows(NotFoundException.class, () -> catalog.rollback("words", 9, DEFAULTS));

        catalog.pin("words", 1, "audit \u00e9");
        catalog.pin("words", 3, "");
        assertThrows(AlreadyExistsException.class, () -> catalog.pin("words", 1, "again"));
        assertThrows(NotFoundException.class, () -> catalog.pin("words", 9, ""));
        assertEquals(List.of(1L, 3L), catalog.pins("words"));
        catalog.unpin("words", 3);
        catalog.unpin("words", 3);
        assertEquals(List.of(1L), catalog.pins("words"));

        assertEquals(List.of(), catalog.clean("words", CleanOptions.defaults()).versions());
        CleanOptions options = CleanOptions.defaults().keep(2).grace(Duration.ZERO);
        Catalog.Cleaned tried = catalog.clean("words", options.dryRun(true));
        assertEquals(List.of(2L, 3L), tried.versions());
        assertEquals(5, catalog.versions("words").size());
        Catalog.Cleaned cleaned = catalog.clean("words", options);
        assertEquals(List.of(2L, 3L), cleaned.versions());
        assertEquals(List.of(1L, 4L, 5L), catalog.versions("words"));
        assertTrue(cleaned.files() >= 1 && cleaned.bytes() > 0, cleaned.toString());
        assertEquals(0, cleaned.staged());
        Staged staged = catalog.stage("words", table("five"));
        assertEquals(1, catalog.clean("words", options).staged());
        assertThrows(
                NotFoundException.class,
                () -> catalog.publishStaged("words", List.of(staged), DEFAULTS));
        assertThrows(IllegalArgumentException.class, () -> options.keep(0));
        assertThrows(IllegalArgumentException.class, () -> options.grace(Duration.ofDays(-1)));
        assertThrows(
                NotFoundException.class, () -> catalog.clean("none", CleanOptions.defaults()));
    }

    @Test
    void damageIsFoundAndRepaired() throws Exception {
        Version version = publish("one");
        Verification intact = catalog.verify("words");
        assertEquals(1, intact.files());
        assertEquals(version.bytes(), intact.bytes());
        long[] progress = new long[2];
        assertEquals(intact, catalog.verify("words", 1, (done, total) -> {
            progress[0] = done;
            progress[1] = total;
            return true;
        }));
        assertEquals(version.bytes(), progress[0]);
        assertEquals(version.bytes(), progress[1]);

        Path object = object(version);
        byte[] damaged = Files.readAllBytes(object);
        damaged[damaged.length / 2] ^= 1;
        Files.delete(object); // It is a link to the file that was published.
        Files.write(object, damaged);
        CorruptException error =
                assertThrows(CorruptException.class, () -> catalog.verify("words"));
        assertTrue(object.endsWith(error.path()), error.toString());
        assertEquals(
                1, catalog.publish("words", dir.resolve("one.firn"), DEFAULTS.verify(true))
                        .repairedFiles());
        assertEquals(intact, catalog.verify("words"));
        assertThrows(CorruptException.class, () -> catalog.verify("words", 1, null));
        Path manifest = dir.resolve("catalog/words/versions/00000000000000000002.json");
        Files.write(manifest, bytes("{}"));
        CorruptException second =
                assertThrows(CorruptException.class, () -> catalog.newest("words"));
        assertTrue(manifest.endsWith(second.path()), second.toString());
    }

    /** The object of the only file of a version. */
    private Path object(Version version) throws Exception {
        try (Stream<Path> all = Files.list(dir.resolve("catalog/words/files"))) {
            String hash = version.files().get(0).blake3();
            return all.filter(file -> file.toString().endsWith(hash)).findFirst().orElseThrow();
        }
    }

    @Test
    void versionsAreComparedAndPulled() throws Exception {
        Path shards = dir.resolve("shards");
        Tests.shards(shards, 3, 300);
        catalog.publish("words", shards);
        Path changed = shards.resolve("shard-00001.table");
        try (TableBuilder builder = TableBuilder.create(changed)) {
            builder.finish();
        }
        Version second = catalog.publish("words", shards).version();
        Catalog.Diff diff = catalog.diff("words", 1, 2);
        assertEquals(1, diff.changes().size());
        Catalog.Change change = diff.changes().get(0);
        assertEquals("shard-00001.table", change.name());
        assertEquals(Files.size(changed), change.after());
        assertTrue(change.before() > change.after());
        assertEquals(2, diff.keptFiles());
        assertEquals(Files.size(changed), diff.newBytes());
        assertEquals(second.bytes(), diff.keptBytes() + diff.newBytes());
        catalog.publish("words", changed);
        assertEquals(-1, catalog.diff("words", 2, 3).changes().get(0).after());

        Path copy = dir.resolve("copy");
        assertEquals(catalog.version("words", 1), catalog.pull("words", 1, copy));
        try (ShardedTable table = ShardedTable.openDir(copy)) {
            assertEquals(300, table.size());
            assertEquals("value 7", text(table.get(bytes("key 7"))));
        }
        assertEquals(1, catalog.pull("words", 1, copy).number());
        assertThrows(AlreadyExistsException.class, () -> catalog.pull("words", copy));
        assertEquals(3, catalog.pull("words", dir.resolve("newest")).number());
        assertThrows(
                NotFoundException.class, () -> catalog.pull("words", 9, dir.resolve("none")));
    }

    @Test
    void wrongArgumentsAreRefused() throws Exception {
        for (String name : List.of("", ".x", "a/b", "\u00e9", "x".repeat(101))) {
            assertThrows(IllegalArgumentException.class, () -> catalog.versions(name));
            assertThrows(
                    IllegalArgumentException.class, () -> catalog.publish(name, table("one")));
        }
        assertThrows(NotFoundException.class, () -> catalog.versions("none"));
        assertThrows(NotFoundException.class, () -> catalog.newest("none"));
        publish("one");
        assertThrows(NotFoundException.class, () -> catalog.version("words", 0));
        assertThrows(NotFoundException.class, () -> catalog.version("words", Long.MAX_VALUE));
        assertThrows(IllegalArgumentException.class, () -> catalog.version("words", -1));
        assertThrows(IllegalArgumentException.class, () -> catalog.verify("words", -1, null));
        assertThrows(
                IllegalArgumentException.class, () -> catalog.pull("words", -1, dir.resolve("p")));
        assertThrows(
                NotFoundException.class, () -> catalog.publish("words", dir.resolve("none")));
        Path text = Files.writeString(dir.resolve("text"), "no table");
        assertThrows(CorruptException.class, () -> catalog.publish("words", text));
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.publish("words", table("one"), DEFAULTS.label("a", "x".repeat(5000))));
        assertThrows(
                IllegalArgumentException.class,
                () -> catalog.publish("words", table("one"), DEFAULTS.label("a", "\ud800")));
        assertThrows(NullPointerException.class, () -> catalog.newest(null));
        assertEquals(List.of(1L), catalog.versions("words"));
        assertThrows(NotFoundException.class, () -> Catalog.open(dir.resolve("none")));
        assertThrows(AlreadyExistsException.class, () -> Catalog.create(dir));
    }

    @Test
    void optionsAreImmutable() {
        PublishOptions labelled = DEFAULTS.label("a", "b");
        labelled.label("c", "d");
        assertEquals(
                Map.of("a", "b"), catalog.publish("words", table("one"), labelled).version().labels());
        assertEquals(
                Map.of("e", "f"), catalog.publish(
                        "words", table("one"), labelled.labels(Map.of("e", "f"))).version().labels());
        assertEquals(Map.of(), catalog.publish("words", table("one")).version().labels());
    }

    @Test
    void aClosedCatalogThrows() {
        catalog.close();
        catalog.close();
        Path file = table("one");
        assertThrows(IllegalStateException.class, catalog::names);
        assertThrows(IllegalStateException.class, () -> catalog.newest("words"));
        assertThrows(IllegalStateException.class, () -> catalog.publish("words", file));
        assertThrows(IllegalStateException.class, () -> catalog.stage("words", file));
        assertThrows(IllegalStateException.class, () -> catalog.verify("words"));
        assertThrows(
                IllegalStateException.class, () -> catalog.reader("words", dir.resolve("cache")));
        try (Catalog again = Catalog.open(dir.resolve("catalog"))) {
            assertFalse(again.names().contains("words"));
        }
    }
}
