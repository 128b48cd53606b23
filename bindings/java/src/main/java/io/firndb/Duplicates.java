package io.firndb;

/** What happens if a key is added to a table more than once. */
public enum Duplicates {
    /** The build fails, and the message names the key's records. */
    ERROR,
    /** The record that was added first is kept. */
    FIRST,
    /** The record that was added last is kept. */
    LAST
}
