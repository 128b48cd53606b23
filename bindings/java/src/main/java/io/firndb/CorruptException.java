package io.firndb;

/** Data on disk is damaged. {@link #path} and {@link #offset} say where. */
public final class CorruptException extends FirnException {
    private static final long serialVersionUID = 1L;

    CorruptException(String message, String path, long offset) {
        super(ErrorKind.CORRUPT, message, path, offset);
    }
}
