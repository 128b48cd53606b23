import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.firndb.Catalog;
import io.firndb.CatalogReader;
import io.firndb.CatalogReaderOptions;
import io.firndb.Change;
import io.firndb.CleanOptions;
import io.firndb.Collection;
import io.firndb.Document;
import io.firndb.Facet;
import io.firndb.FacetCounts;
import io.firndb.Field;
import io.firndb.FieldType;
import io.firndb.Filter;
import io.firndb.Generation;
import io.firndb.Hits;
import io.firndb.NotFoundException;
import io.firndb.PartitionBuilder;
import io.firndb.PublishOptions;
import io.firndb.Query;
import io.firndb.Schema;
import io.firndb.Version;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A search service over HTTP, and a publisher that gives it a new version of its documents every
 * second. They share a catalog and nothing else, and may run in one process or in several.
 * README.md says how to start it.
 */
public final class SearchService {
    private static final String NAME = "offers";
    private static final List<String> CITIES = List.of("Bergen", "Lyon", "Oslo", "Porto", "Voss");
    private static final List<String> KINDS = List.of("flat", "house", "room");
    private static final int OFFERS_PER_CITY = 2_000;
    private static final int LIMIT = 1000;

    private static final Schema SCHEMA = Schema.of(
            Field.of("city", FieldType.STRING).full(),
            Field.of("kind", FieldType.STRING).full(),
            Field.of("price", FieldType.I64).full(),
            Field.of("revision", FieldType.I64).full());

    private SearchService() {}

    /**
     * Runs a command.
     *
     * @param args {@code demo|publish|serve DIRECTORY [PORT|MILLISECONDS]}
     */
    public static void main(String[] args) throws Exception {
        String command = args.length > 1 ? args[0] : "help";
        Path dir = Path.of(args.length > 1 ? args[1] : ".");
        switch (command) {
            case "demo" -> {
                Thread publisher = new Thread(() -> publish(dir, 1000));
                publisher.setDaemon(true);
                publisher.start();
                serve(dir, number(args, 8080));
            }
            case "publish" -> publish(dir, number(args, 1000));
            case "serve" -> serve(dir, number(args, 8080));
            default -> {
                System.err.println("usage: SearchService demo|serve DIRECTORY [PORT]");
                System.err.println("       SearchService publish DIRECTORY [MILLISECONDS]");
                System.exit(2);
            }
        }
    }

    private static int number(String[] args, int standard) {
        return args.length > 2 ? Integer.parseInt(args[2]) : standard;
    }

    // The publisher.

    /** Publishes a version, and then one in each interval, until the process ends. */
    private static void publish(Path dir, int millis) {
        try (Collection collection = Collection.openOrCreate(dir.resolve("building"));
                Catalog catalog = Catalog.create(dir.resolve("catalog"))) {
            for (long revision = 1; ; revision++) {
                // Each revision changes one city. Only its partition is built, stored and fetched.
                List<String> changed = revision == 1
                        ? CITIES
                        : List.of(CITIES.get((int) (revision % CITIES.size())));
                try (Change change = collection.change()) {
                    for (String city : changed) {
                        build(change, city, revision);
                    }
                    change.commit();
                }
                PublishOptions options =
                        PublishOptions.defaults().label("changed", String.join(" ", changed));
                Catalog.Published published = catalog.publish(NAME, collection.path(), options);
                System.out.println("published version " + published.version().number() + ": "
                        + published.sentFiles() + " new files, " + published.sentBytes()
                        + " bytes");
                catalog.clean(NAME, CleanOptions.defaults().grace(Duration.ofMinutes(1)));
                Thread.sleep(millis);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Replaces the offers of a city, as a part of a change. */
    private static void build(Change change, String city, long revision) {
        Random random = new Random(city.hashCode() + revision);
        try (PartitionBuilder builder = PartitionBuilder.create(SCHEMA)) {
            for (int i = 0; i < OFFERS_PER_CITY; i++) {
                String kind = KINDS.get(random.nextInt(KINDS.size()));
                long price = 20 + random.nextInt(480);
                String json = String.format(
                        Locale.ROOT, "{\"id\": \"%s-%d\", \"city\": \"%s\", \"kind\": \"%s\","
                                + " \"price\": %d, \"revision\": %d}",
                        city, i, city, kind, price, revision);
                builder.add(new Document().set("city", city).set("kind", kind).set("price", price)
                        .set("revision", revision).payload(json.getBytes(StandardCharsets.UTF_8)));
            }
            change.put(city, builder);
        }
    }

    // The service.

    /** Answers requests until the process ends. */
    private static void serve(Path dir, int port) throws Exception {
        CatalogReader reader = open(dir);
        ExecutorService executor = executor();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(executor);
        server.createContext("/search", exchange -> answer(exchange, reader, SearchService::search));
        server.createContext("/facets", exchange -> answer(exchange, reader, SearchService::facets));
        server.createContext("/version", exchange -> answer(exchange, reader, (generation, q) -> {
            Version version = generation.version();
            String error = reader.stats().lastError();
            return "{\"version\": " + version.number() + ", \"published\": "
                    + json(version.time().toString()) + ", \"documents\": "
                    + version.statistics().get("documents") + ", \"changed\": "
                    + json(version.labels().get("changed")) + ", \"error\": "
                    + (error == null ? "null" : json(error)) + "}";
        }));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            server.stop(1);
            executor.shutdown();
            reader.close();
        }));
        server.start();
        System.out.println("listening on http://127.0.0.1:" + server.getAddress().getPort());
    }

    /** Opens the newest version, and waits for the first one. */
    private static CatalogReader open(Path dir) throws InterruptedException {
        CatalogReaderOptions options = CatalogReaderOptions.defaults()
                .follow(Duration.ofMillis(200)).warm(CatalogReaderOptions.Warm.ALL);
        try (Catalog catalog = Catalog.create(dir.resolve("catalog"))) {
            while (true) {
                try {
                    return catalog.reader(NAME, dir.resolve("cache"), options);
                } catch (NotFoundException e) {
                    Thread.sleep(100);
                }
            }
        }
    }

    /** A virtual thread for each request where the JDK has them (Java 21), otherwise a pool. */
    private static ExecutorService executor() {
        try {
            return (ExecutorService)
                    Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException e) {
            return Executors.newFixedThreadPool(4 * Runtime.getRuntime().availableProcessors());
        }
    }

    /** Makes the answer to a request from one version of the documents. */
    private interface Handler {
        String answer(Generation generation, Map<String, String> parameters);
    }

    private static void answer(HttpExchange exchange, CatalogReader reader, Handler handler)
            throws IOException {
        try (exchange) {
            int status = 200;
            String body;
            // The whole request reads this version, even if the reader switches meanwhile.
            try (Generation generation = reader.current()) {
                body = handler.answer(generation, parameters(exchange));
            } catch (IllegalArgumentException e) {
                status = 400;
                body = "{\"error\": " + json(e.getMessage()) + "}";
            } catch (RuntimeException e) {
                status = 500;
                body = "{\"error\": " + json(e.toString()) + "}";
            }
            byte[] bytes = (body + "\n").getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
        }
    }

    /** {@code /search?q=city = 'Oslo' order by price&limit=20}: the payloads are JSON. */
    private static String search(Generation generation, Map<String, String> parameters) {
        int limit = Integer.parseInt(parameters.getOrDefault("limit", "20"));
        Query query = Query.parse(parameters.getOrDefault("q", ""));
        Hits hits = generation.collection()
                .search(query.limit(Math.min(limit, LIMIT)).withCount());
        StringJoiner offers = new StringJoiner(",\n", "[", "]");
        for (byte[] payload : hits.payloads()) {
            offers.add(new String(payload, StandardCharsets.UTF_8));
        }
        return "{\"version\": " + generation.number() + ", \"total\": "
                + hits.total().getAsLong() + ", \"offers\": " + offers + "}";
    }

    /** {@code /facets?field=city&q=price < 50}: how often the values of a field occur. */
    private static String facets(Generation generation, Map<String, String> parameters) {
        String field = parameters.get("field");
        if (field == null) {
            throw new IllegalArgumentException("give a field: /facets?field=city");
        }
        Filter filter = Filter.parse(parameters.getOrDefault("q", ""));
        StringJoiner values = new StringJoiner(", ", "{", "}");
        for (FacetCounts counts : generation.collection().facets(filter, Facet.of(field))) {
            for (FacetCounts.Count count : counts.values()) {
                values.add(json(String.valueOf(count.value())) + ": " + count.documents());
            }
        }
        return "{\"version\": " + generation.number() + ", \"values\": " + values + "}";
    }

    private static Map<String, String> parameters(HttpExchange exchange) {
        Map<String, String> parameters = new HashMap<>();
        String query = exchange.getRequestURI().getRawQuery();
        for (String parameter : query == null ? new String[0] : query.split("&")) {
            String[] parts = parameter.split("=", 2);
            String value = parts.length > 1 ? parts[1] : "";
            parameters.put(parts[0], URLDecoder.decode(value, StandardCharsets.UTF_8));
        }
        return parameters;
    }

    /** A text as a string of JSON. */
    private static String json(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : String.valueOf(text).toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
