package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tasks of a job, in a class loader that is dropped with the job while the threads that ran the
 * tasks live on: this is how the executors of Spark and the task managers of Flink work.
 */
class TaskTest {
    private static final int SHARDS = 4;
    private static final int RECORDS = 50_000;
    private static final int THREADS = 2;
    private static final String THREAD = "firn-task-";

    @TempDir
    Path dir;

    @Test
    void tasksBuildAndStageAndLeaveNothingBehind() throws Exception {
        Catalog.create(dir.resolve("catalog")).close();
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        AtomicInteger number = new AtomicInteger();
        ExecutorService executor = Executors.newFixedThreadPool(
                THREADS, task -> new Thread(task, THREAD + number.incrementAndGet()));
        try {
            URL[] urls = {Tests.classes().toUri().toURL(), Tests.testClasses().toUri().toURL()};
            URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
            List<Staged> staged = runJob(executor, loader);
            loader.close();
            WeakReference<ClassLoader> dropped = new WeakReference<>(loader);
            loader = null;

            publishAndRead(staged);
            long end = System.nanoTime() + 60_000_000_000L;
            while (dropped.get() != null && System.nanoTime() < end) {
                System.gc();
                Thread.sleep(10);
            }
            assertNull(dropped.get(), "the class loader of the tasks is not collected");
            Set<Thread> added = new HashSet<>(Thread.getAllStackTraces().keySet());
            added.removeAll(before);
            added.removeIf(thread -> thread.getName().startsWith(THREAD));
            assertEquals(Set.of(), added);
            assertNoNativeThreads(end);
        } finally {
            executor.shutdown();
        }
        assertEquals(List.of(), filesIn(dir.resolve("work")));
    }

    /** Runs all tasks, the first of which fails and is repeated. Returns what they staged. */
    private List<Staged> runJob(ExecutorService executor, ClassLoader loader) throws Exception {
        ExecutionException failure = assertThrows(
                ExecutionException.class, () -> executor.submit(task(loader, 0, true)).get());
        assertEquals("the task fails", failure.getCause().getMessage());
        assertEquals(List.of(), filesIn(dir.resolve("work")));
        List<Future<byte[]>> results = new ArrayList<>();
        for (int shard = 0; shard < SHARDS; shard++) {
            results.add(executor.submit(task(loader, shard, false)));
        }
        List<Staged> staged = new ArrayList<>();
        for (Future<byte[]> result : results) {
            try (ObjectInputStream in =
                    new ObjectInputStream(new ByteArrayInputStream(result.get()))) {
                staged.add((Staged) in.readObject());
            }
        }
        return staged;
    }

    /** A task whose classes, and whose copy of the native library, are those of a class loader. */
    @SuppressWarnings("unchecked")
    private Callable<byte[]> task(ClassLoader loader, int shard, boolean fails) throws Exception {
        Class<?> type = loader.loadClass(ShardTask.class.getName());
        assertNotSame(ShardTask.class, type);
        Path work = Files.createDirectories(dir.resolve("work").resolve("" + shard));
        return (Callable<byte[]>) type
                .getConstructor(
                        Path.class, Path.class, int.class, int.class, int.class, boolean.class)
                .newInstance(dir.resolve("catalog"), work, shard, SHARDS, RECORDS, fails);
    }

    private void publishAndRead(List<Staged> staged) {
        try (Catalog catalog = Catalog.open(dir.resolve("catalog"))) {
            Version version =
                    catalog.publishStaged("words", staged, PublishOptions.defaults()).version();
            assertEquals(Version.Kind.SHARDED_TABLE, version.kind());
            try (CatalogReader reader = catalog.reader("words", dir.resolve("cache"));
                    Generation generation = reader.current()) {
                ShardedTable table = generation.shardedTable();
                assertEquals(RECORDS, table.size());
                assertEquals(RECORDS, table.verify().records());
                for (int i = 0; i < RECORDS; i += 77) {
                    assertEquals("value " + i, text(table.get(bytes("key " + i))));
                }
            }
        }
    }

    private static List<Path> filesIn(Path dir) throws IOException {
        try (Stream<Path> all = Files.walk(dir)) {
            return all.filter(Files::isRegularFile).toList();
        }
    }

    /** A native thread has the system's name of the thread that started it. */
    private static void assertNoNativeThreads(long end) throws Exception {
        Path tasks = Path.of("/proc/self/task");
        if (!Files.isDirectory(tasks)) {
            return; // The system has no list of threads.
        }
        List<String> names = names(tasks);
        while (names.size() != THREADS && System.nanoTime() < end) {
            Thread.sleep(1);
            names = names(tasks);
        }
        assertEquals(THREADS, names.size(), names.toString());
    }

    private static List<String> names(Path tasks) throws IOException {
        List<String> names = new ArrayList<>();
        try (Stream<Path> all = Files.list(tasks)) {
            for (Path task : all.toList()) {
                try {
                    names.add(Files.readString(task.resolve("comm")).strip());
                } catch (IOException e) {
                    continue; // It has ended.
                }
            }
        }
        names.removeIf(name -> !name.startsWith(THREAD));
        return names;
    }
}
