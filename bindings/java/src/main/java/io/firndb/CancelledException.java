package io.firndb;

/** A callback cancelled the call. */
public final class CancelledException extends FirnException {
    private static final long serialVersionUID = 1L;

    CancelledException(String message, String path, long offset) {
        super(ErrorKind.CANCELLED, message, path, offset);
    }
}
