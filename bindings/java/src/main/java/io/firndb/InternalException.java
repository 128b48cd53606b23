package io.firndb;

/** An error in the library itself. Please report it. */
public final class InternalException extends FirnException {
    private static final long serialVersionUID = 1L;

    InternalException(String message, String path, long offset) {
        super(ErrorKind.INTERNAL, message, path, offset);
    }
}
