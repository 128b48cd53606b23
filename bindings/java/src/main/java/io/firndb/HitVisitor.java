package io.firndb;

/** Receives the matches of a query, in order, from {@link CollectionReader#forEach}. */
@FunctionalInterface
public interface HitVisitor {
    /**
     * Called with each match. May read values and run queries; an exception ends the iteration and
     * comes out of {@code forEach}.
     *
     * @param reader the reader that runs the query, which cannot be closed during the call
     * @param hit the match, an argument of the reader's methods
     * @return whether to continue
     */
    boolean visit(CollectionReader reader, long hit);
}
