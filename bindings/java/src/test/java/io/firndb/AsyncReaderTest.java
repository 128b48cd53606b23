package io.firndb;

import static io.firndb.Tests.bytes;
import static io.firndb.Tests.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.channels.CompletionHandler;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.RejectedExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AsyncReaderTest {
    @TempDir
    Path dir;

    /** Remembers what a handler got. */
    private record Got(List<String> results) implements CompletionHandler<byte[], String> {
        @Override
        public void completed(byte[] value, String attachment) {
            results.add(attachment + "=" + text(value));
        }

        @Override
        public void failed(Throwable cause, String attachment) {
            results.add(attachment + ":" + cause.getClass().getSimpleName());
        }
    }

    @Test
    void waitingKeysAreReadTogether() {
        List<Integer> batches = new ArrayList<>();
        Queue<Runnable> tasks = new ArrayDeque<>();
        AsyncReader reader = new AsyncReader(keys -> {
            batches.add(keys.size());
            return new ArrayList<>(keys);
        }, tasks::add);
        List<CompletableFuture<byte[]>> futures = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            futures.add(reader.get(bytes("key " + i)));
        }
        assertEquals(1, tasks.size());
        tasks.remove().run();
        assertEquals(List.of(256, 44), batches);
        for (int i = 0; i < 300; i++) {
            assertEquals("key " + i, text(futures.get(i).join()));
        }
        reader.get(bytes("later"));
        assertEquals(1, tasks.size());
    }

    @Test
    void storesAndHandlers() {
        Got got = new Got(new ArrayList<>());
        try (LogStore store = LogStore.open(dir.resolve("store"))) {
            store.put(bytes("a"), bytes("1"));
            List<CompletableFuture<byte[]>> futures = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                futures.add(store.getAsync(bytes(i % 2 == 0 ? "a" : "absent")));
            }
            for (int i = 0; i < 1000; i++) {
                assertEquals(i % 2 == 0 ? "1" : null, text(futures.get(i).join()));
            }
            AsyncReader reader = store.asyncReader(Runnable::run);
            reader.get(bytes("a"), "a", got);
            reader.get(bytes("b"), "b", got);
            CompletableFuture<String> handled = new CompletableFuture<>();
            store.getAsync(bytes("a"), handled, new CompletionHandler<>() {
                @Override
                public void completed(byte[] value, CompletableFuture<String> attachment) {
                    attachment.complete(text(value));
                }

                @Override
                public void failed(Throwable cause, CompletableFuture<String> attachment) {
                    attachment.completeExceptionally(cause);
                }
            });
            assertEquals("1", handled.join());
            store.close();
            reader.get(bytes("c"), "c", got);
            CompletionException closed = assertThrows(
                    CompletionException.class, () -> store.getAsync(bytes("a")).join());
            assertInstanceOf(IllegalStateException.class, closed.getCause());
        }
        assertEquals(List.of("a=1", "b=null", "c:IllegalStateException"), got.results());
    }

    @Test
    void aDamagedRecordFailsOnlyItsOwnGet() {
        AsyncReader reader = new AsyncReader(keys -> {
            if (keys.stream().anyMatch(key -> text(key).equals("bad"))) {
                throw (CorruptException) Native.exception(6, "damaged", "/f", 1);
            }
            return new ArrayList<>(keys);
        }, new Later());
        CompletableFuture<byte[]> good = reader.get(bytes("good"));
        CompletableFuture<byte[]> bad = reader.get(bytes("bad"));
        Later.runAll();
        assertEquals("good", text(good.join()));
        assertTrue(bad.isCompletedExceptionally());
    }

    /** Runs tasks when it is told to. */
    private static final class Later implements java.util.concurrent.Executor {
        private static final Queue<Runnable> TASKS = new ArrayDeque<>();

        static void runAll() {
            while (!TASKS.isEmpty()) {
                TASKS.remove().run();
            }
        }

        @Override
        public void execute(Runnable task) {
            TASKS.add(task);
        }
    }

    @Test
    void anExecutorThatRefusesTasksFailsTheGets() {
        AsyncReader reader = new AsyncReader(keys -> keys, task -> {
            throw new RejectedExecutionException("full");
        });
        for (int i = 0; i < 2; i++) {
            CompletableFuture<byte[]> future = reader.get(bytes("a"));
            CompletionException failed = assertThrows(CompletionException.class, future::join);
            assertInstanceOf(RejectedExecutionException.class, failed.getCause());
        }
        assertThrows(NullPointerException.class, () -> reader.get(null));
    }

    @Test
    void aHandlerThatThrowsDoesNotKeepOthersFromBeingCalled() {
        Later later = new Later();
        AsyncReader reader = new AsyncReader(ArrayList::new, later);
        List<Throwable> uncaught = new ArrayList<>();
        Thread thread = Thread.currentThread();
        var before = thread.getUncaughtExceptionHandler();
        thread.setUncaughtExceptionHandler((t, e) -> uncaught.add(e));
        try {
            Got got = new Got(new ArrayList<>());
            reader.get(bytes("a"), "a", new CompletionHandler<byte[], String>() {
                @Override
                public void completed(byte[] value, String attachment) {
                    throw new IllegalStateException("mine");
                }

                @Override
                public void failed(Throwable cause, String attachment) {
                    throw new AssertionError(cause);
                }
            });
            reader.get(bytes("b"), "b", got);
            Later.runAll();
            assertEquals(List.of("b=b"), got.results());
            assertEquals(1, uncaught.size());
        } finally {
            thread.setUncaughtExceptionHandler(before);
        }
    }
}
