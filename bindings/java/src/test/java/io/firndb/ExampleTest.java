package io.firndb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The programs in examples/java. */
class ExampleTest {
    private static final Path SERVICE = Path.of("../../examples/java/SearchService.java");
    private static final int VERSIONS = 6;

    @TempDir
    Path dir;

    private final HttpClient client = HttpClient.newHttpClient();

    /** The JVMs that have the server of the JDK. */
    static List<Path> javas() throws Exception {
        List<Path> javas = new ArrayList<>(Tests.javas());
        for (Path java : Tests.javas()) {
            if (!Tests.run(java, "--list-modules").output().contains("jdk.httpserver")) {
                javas.remove(java);
            }
        }
        return javas;
    }

    private Tests.Running start(Path java, String command, String argument) throws Exception {
        return start(java, command, dir.resolve("data").toString(), argument);
    }

    private Tests.Running start(Path java, String... arguments) throws Exception {
        String access = Tests.isNew(java.getParent().getParent())
                ? "--enable-native-access=ALL-UNNAMED"
                : "-Dfirndb.unused=1";
        String path = Tests.classes() + File.pathSeparator + dir;
        List<String> all = new ArrayList<>(
                List.of(access, Tests.sameLibrary(), "-cp", path, "SearchService"));
        all.addAll(List.of(arguments));
        return Tests.start(java, all.toArray(String[]::new));
    }

    private void compile() {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        assumeTrue(compiler != null && Files.exists(SERVICE), "no compiler, or no example");
        assertEquals(0, compiler.run(
                null, null, null, "-Xlint:all", "-Werror", "--release", "17", "-d", dir.toString(),
                "-cp", Tests.classes().toString(), SERVICE.toString()));
    }

    /** The address of a service, once it has written it. */
    private static String address(Tests.Running service) throws Exception {
        Pattern line = Pattern.compile("listening on (http://\\S+)\n");
        long end = System.nanoTime() + 60_000_000_000L;
        while (true) {
            String output = Files.readString(service.output());
            Matcher found = line.matcher(output);
            if (found.find()) {
                return found.group(1);
            }
            assertTrue(service.process().isAlive() && System.nanoTime() < end, output);
            Thread.sleep(10);
        }
    }

    private HttpResponse<String> get(String url) throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(url)).timeout(Duration.ofSeconds(60)).build();
        return client.send(request, HttpResponse.BodyHandlers.ofString());
    }

    private String found(String url) throws Exception {
        HttpResponse<String> response = get(url);
        assertEquals(200, response.statusCode(), response.body());
        return response.body();
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private static List<String> all(String pattern, String text) {
        return Pattern.compile(pattern).matcher(text).results().map(m -> m.group(1)).toList();
    }

    private static long version(String body) {
        return Long.parseLong(all("\"version\": (\\d+)", body).get(0));
    }

    @ParameterizedTest
    @MethodSource("javas")
    void queriesNeverFailWhileVersionsAreSwapped(Path java) throws Exception {
        compile();
        Tests.Running publisher = start(java, "publish", "100");
        Tests.Running service = start(java, "serve", "0");
        ExecutorService executor = Executors.newFixedThreadPool(3);
        try {
            String url = address(service);
            List<Callable<Set<Long>>> clients =
                    List.of(() -> search(url), () -> facets(url), () -> versions(url));
            for (Future<Set<Long>> seen : executor.invokeAll(clients)) {
                assertTrue(seen.get().size() >= VERSIONS, seen.get().toString());
            }
            wrongRequests(url);
            publisher.process().destroy();
            publisher.process().waitFor();
            // Without its publisher, the service stays at the last version.
            assertTrue(version(found(url + "/version")) >= VERSIONS);
        } finally {
            executor.shutdown();
            publisher.process().destroy();
            service.process().destroy();
        }
        assertEnded(publisher);
        assertEnded(service);
        Tests.Running again = start(java, "serve", "0");
        try {
            assertTrue(version(found(address(again) + "/version")) >= VERSIONS);
        } finally {
            again.process().destroy();
        }
        assertEnded(again);
    }

    /** Ended by the signal, and by nothing else. */
    private static void assertEnded(Tests.Running running) throws Exception {
        Tests.Result result = running.result();
        assertEquals(143, result.code(), result.output());
        assertFalse(result.output().contains("xception"), result.output());
    }

    /** Until enough versions are seen: all offers of a city are of one revision. */
    private Set<Long> search(String url) throws Exception {
        Set<Long> seen = new HashSet<>();
        String query = encode("city = 'Oslo' and price < 90 order by price");
        while (seen.size() < VERSIONS) {
            String body = found(url + "/search?limit=50&q=" + query);
            seen.add(version(body));
            assertEquals(50, all("\"city\": \"(Oslo)\"", body).size(), body);
            assertEquals(1, Set.copyOf(all("\"revision\": (\\d+)", body)).size(), body);
            List<Integer> prices =
                    all("\"price\": (\\d+)", body).stream().map(Integer::valueOf).toList();
            assertEquals(prices.stream().sorted().toList(), prices);
        }
        return seen;
    }

    private Set<Long> facets(String url) throws Exception {
        Set<Long> seen = new HashSet<>();
        while (seen.size() < VERSIONS) {
            String body = found(url + "/facets?field=city");
            seen.add(version(body));
            assertEquals(
                    List.of("2000", "2000", "2000", "2000", "2000"),
                    all("\"\\w+\": (2000)[,}]", body), body);
        }
        return seen;
    }

    private Set<Long> versions(String url) throws Exception {
        Set<Long> seen = new HashSet<>();
        long last = 0;
        while (seen.size() < VERSIONS) {
            String body = found(url + "/version");
            assertTrue(version(body) >= last, body);
            last = version(body);
            seen.add(last);
            assertTrue(body.contains("\"documents\": 10000"), body);
            assertTrue(body.contains("\"error\": null"), body);
        }
        return seen;
    }

    private void wrongRequests(String url) throws Exception {
        for (String wrong : List.of(
                "/search?q=" + encode("city = 'Oslo"), "/search?q=" + encode("none = 1"),
                "/search?limit=x", "/search?limit=-1", "/facets", "/facets?field=none")) {
            HttpResponse<String> response = get(url + wrong);
            assertEquals(400, response.statusCode(), wrong + " " + response.body());
            assertTrue(response.body().startsWith("{\"error\": "), response.body());
        }
        assertEquals(404, get(url + "/none").statusCode());
        assertEquals(1, all("\"(id)\"", found(url + "/search?limit=1")).size());
    }

    @Test
    void theUsageIsShown() throws Exception {
        compile();
        Tests.Result result = start(Tests.javas().get(0), new String[0]).result();
        assertEquals(2, result.code());
        assertTrue(result.output().startsWith("usage: SearchService"), result.output());
    }
}
