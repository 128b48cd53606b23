package io.firndb;

import java.util.Map;
import java.util.TreeMap;

/** How a version is published. Immutable: each method returns changed options. */
public final class PublishOptions {
    private static final PublishOptions DEFAULTS = new PublishOptions(Map.of(), false, null);

    private final Map<String, String> labels;
    private final boolean verify;
    /** The callback, or null. */
    final Catalog.Progress progress;

    private PublishOptions(
            Map<String, String> labels, boolean verify, Catalog.Progress progress) {
        this.labels = labels;
        this.verify = verify;
        this.progress = progress;
    }

    /**
     * The defaults: no labels.
     *
     * @return the default options
     */
    public static PublishOptions defaults() {
        return DEFAULTS;
    }

    /**
     * Adds a name and a text to the version: at most 100, of at most 4,096 bytes each.
     *
     * @param name the name; another text of the same name is replaced
     * @param text the text
     * @return the changed options
     */
    public PublishOptions label(String name, String text) {
        Map<String, String> changed = new TreeMap<>(labels);
        changed.put(name, text);
        return new PublishOptions(changed, verify, progress);
    }

    /**
     * Sets all names and texts: see {@link #label}. Default: none.
     *
     * @param labels the texts by name
     * @return the changed options
     */
    public PublishOptions labels(Map<String, String> labels) {
        return new PublishOptions(new TreeMap<>(labels), verify, progress);
    }

    /**
     * Also read the files that the newest version has in the catalog, and store damaged ones again.
     * Otherwise a stored file of the right length is assumed to be intact. The same applies to
     * staged files, which are not published if they are damaged. Default: no.
     *
     * @param verify whether to read them
     * @return the changed options
     */
    public PublishOptions verify(boolean verify) {
        return new PublishOptions(labels, verify, progress);
    }

    /**
     * Receives the progress of {@link Catalog#publish} and {@link Catalog#publishIfChanged}, and
     * can cancel them; then no version is created. Other methods do not call it. Default: none.
     *
     * @param progress is called with the bytes stored so far and the bytes to store in total;
     *     {@code null} for none
     * @return the changed options
     */
    public PublishOptions progress(Catalog.Progress progress) {
        return new PublishOptions(labels, verify, progress);
    }

    /** What crosses to native code. */
    byte[] packed() {
        Packed packed = new Packed(64);
        packed.addByte(verify ? 1 : 0);
        labels.forEach((name, text) -> {
            packed.addText(name);
            packed.addText(text);
        });
        return packed.toArray();
    }
}
