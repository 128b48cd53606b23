package io.firndb;

import java.nio.channels.CompletionHandler;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;

/**
 * Gets values without waiting for them. Keys that wait are read together, in a task of the
 * executor: the more callers there are, the larger are the batches. Any number of threads may use
 * it. It holds no resources and is not closed. If the store is closed, gets complete with an
 * {@link IllegalStateException}.
 */
public final class AsyncReader {
    /** Most keys of a batch. */
    private static final int BATCH = 256;

    private final Function<List<byte[]>, List<byte[]>> read;
    private final Executor executor;
    private final Queue<Get> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean isScheduled = new AtomicBoolean();

    AsyncReader(Function<List<byte[]>, List<byte[]>> read, Executor executor) {
        this.read = read;
        this.executor = Objects.requireNonNull(executor, "executor");
    }

    /** A key and where its value goes. */
    private interface Get {
        byte[] key();

        void complete(byte[] value);

        void fail(Throwable cause);
    }

    /**
     * Gets a value.
     *
     * @param key the key, which must not be changed until the get is complete
     * @return completes with the value, or with {@code null} if the key is absent. Functions that
     *     depend on it and are not asynchronous themselves run in the task that reads.
     */
    public CompletableFuture<byte[]> get(byte[] key) {
        Objects.requireNonNull(key, "key");
        CompletableFuture<byte[]> future = new CompletableFuture<>();
        submit(new Get() {
            @Override
            public byte[] key() {
                return key;
            }

            @Override
            public void complete(byte[] value) {
                future.complete(value);
            }

            @Override
            public void fail(Throwable cause) {
                future.completeExceptionally(cause);
            }
        });
        return future;
    }

    /**
     * Gets a value and passes it to a handler.
     *
     * @param <A> the type of the attachment
     * @param key the key, which must not be changed until the get is complete
     * @param attachment what the handler gets in addition; may be {@code null}
     * @param handler gets the value, or {@code null} if the key is absent, in the task that reads
     */
    public <A> void get(
            byte[] key, A attachment, CompletionHandler<byte[], ? super A> handler) {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(handler, "handler");
        submit(new Get() {
            @Override
            public byte[] key() {
                return key;
            }

            @Override
            public void complete(byte[] value) {
                handler.completed(value, attachment);
            }

            @Override
            public void fail(Throwable cause) {
                handler.failed(cause, attachment);
            }
        });
    }

    private void submit(Get get) {
        waiting.add(get);
        schedule();
    }

    private void schedule() {
        if (!isScheduled.compareAndSet(false, true)) {
            return;
        }
        try {
            executor.execute(this::drain);
        } catch (RuntimeException | Error e) {
            isScheduled.set(false);
            for (Get get = waiting.poll(); get != null; get = waiting.poll()) {
                fail(get, e);
            }
        }
    }

    /** Reads what waits; then another task is scheduled by the next get. */
    private void drain() {
        List<Get> batch = new ArrayList<>();
        List<byte[]> keys = new ArrayList<>();
        for (Get get = waiting.poll(); get != null; get = waiting.poll()) {
            batch.add(get);
            keys.add(get.key());
            if (batch.size() == BATCH) {
                answer(batch, keys);
                batch.clear();
                keys.clear();
            }
        }
        answer(batch, keys);
        isScheduled.set(false);
        if (!waiting.isEmpty()) {
            schedule();
        }
    }

    private void answer(List<Get> batch, List<byte[]> keys) {
        if (batch.isEmpty()) {
            return;
        }
        List<byte[]> values;
        try {
            values = read.apply(keys);
        } catch (FirnException e) {
            if (batch.size() == 1) {
                fail(batch.get(0), e);
                return;
            }
            // A damaged record must not fail the gets of other keys.
            for (Get get : batch) {
                answer(List.of(get), List.of(get.key()));
            }
            return;
        } catch (RuntimeException | Error e) {
            batch.forEach(get -> fail(get, e));
            return;
        }
        for (int i = 0; i < batch.size(); i++) {
            try {
                batch.get(i).complete(values.get(i));
            } catch (RuntimeException | Error e) {
                uncaught(e);
            }
        }
    }

    private static void fail(Get get, Throwable cause) {
        try {
            get.fail(cause);
        } catch (RuntimeException | Error e) {
            uncaught(e);
        }
    }

    /** An exception of a handler must not keep others from being called. */
    private static void uncaught(Throwable e) {
        Thread thread = Thread.currentThread();
        thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
    }
}
