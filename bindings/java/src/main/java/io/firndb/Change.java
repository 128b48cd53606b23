package io.firndb;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;

/**
 * A change of a {@link Collection}: steps that {@link #commit} applies in order, all of them or
 * none. Closing it without a commit discards it.
 *
 * <pre>{@code
 * try (Change change = collection.change()) {
 *     change.put("2024-05", builder).remove("2023-05").commit();
 * }
 * }</pre>
 *
 * <p>A builder that is given to a change is used up. Documents of builders are in memory until the
 * commit. All methods throw {@link IllegalStateException} if the change was committed or closed.
 */
public final class Change implements AutoCloseable {
    private final Native handle;

    Change(Native handle) {
        this.handle = handle;
    }

    /**
     * Adds a partition, or replaces the one of this name and those that continue it.
     *
     * @param name 1 to 100 characters of {@code A-Z a-z 0-9 . _ -}, not a dot first
     * @param builder the documents; it is used up
     * @return this change
     * @throws FailedException if the builder is used up already
     */
    public Change put(String name, PartitionBuilder builder) {
        return put(name, builder, false);
    }

    /**
     * Adds or replaces a partition with a copy of a partition file, which is verified first.
     *
     * @param name as for {@link #put}
     * @param file the file, which {@link PartitionBuilder#write} wrote
     * @return this change
     */
    public Change putFile(String name, Path file) {
        Objects.requireNonNull(name, "name");
        handle.changePutFile(handle.id, name, file.toAbsolutePath().toString(), false);
        return this;
    }

    /**
     * Adds documents to those of a partition, which stay: in another partition called
     * {@code NAME.2} and so on. It is replaced and removed together with the first.
     *
     * @param name the name of a partition
     * @param builder the documents; it is used up
     * @return this change
     * @throws FailedException if the builder is used up already
     */
    public Change extend(String name, PartitionBuilder builder) {
        return put(name, builder, true);
    }

    private Change put(String name, PartitionBuilder builder, boolean extend) {
        Objects.requireNonNull(name, "name");
        try {
            handle.changePut(handle.id, name, builder.handle.id, extend);
        } finally {
            // The builder is not closed as a leak before the call has taken its documents.
            Reference.reachabilityFence(builder);
        }
        return this;
    }

    /**
     * Does what {@link #extend} does, with a copy of a partition file, which is verified first.
     *
     * @param name the name of a partition
     * @param file the file, which {@link PartitionBuilder#write} wrote
     * @return this change
     */
    public Change extendFile(String name, Path file) {
        Objects.requireNonNull(name, "name");
        handle.changePutFile(handle.id, name, file.toAbsolutePath().toString(), true);
        return this;
    }

    /**
     * Removes a partition, and those that continue it.
     *
     * @param name its name
     * @return this change
     */
    public Change remove(String name) {
        handle.changeRemove(handle.id, Objects.requireNonNull(name, "name"));
        return this;
    }

    /**
     * Merges partitions, with those that continue them, into one. Their names stay reserved until
     * that one is replaced or removed.
     *
     * @param names the names, in the order that the documents get
     * @param into the name of the new partition, which may be one of them
     * @return this change
     */
    public Change merge(List<String> names, String into) {
        Packed packed = new Packed(256);
        names.forEach(packed::addText);
        handle.changeMerge(
                handle.id, packed.bytes, packed.length, Objects.requireNonNull(into, "into"));
        return this;
    }

    /**
     * Removes all partitions, including those that this change put before.
     *
     * @return this change
     */
    public Change clear() {
        handle.changeClear(handle.id);
        return this;
    }

    /**
     * Applies the steps and ends the change. If an exception is thrown, nothing was changed; the
     * builders are used up even then. When this returns, the new version survives power loss, and
     * {@link Collection#reader} of the collection returns it.
     *
     * @throws LockedException if another process is changing the collection
     * @throws NotFoundException if a partition to be continued, removed or merged does not exist
     * @throws AlreadyExistsException if a name is that of a continuation, or of documents that were
     *     merged with others
     * @throws IllegalArgumentException if a name is not valid, the schemas of partitions contradict
     *     each other, or there would be more than 32,000 partitions
     * @throws FailedException if the directory was moved or replaced; open it again
     */
    public void commit() {
        try {
            handle.changeCommit(handle.id);
        } finally {
            handle.close();
        }
    }

    /** Discards the change, unless it was committed. Has no effect if it is closed. */
    @Override
    public void close() {
        handle.close();
    }
}
