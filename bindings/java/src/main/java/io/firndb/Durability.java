package io.firndb;

/** When a write is acknowledged. */
public enum Durability {
    /**
     * When the operating system has it. It survives a process crash at any moment. A power cut may
     * lose it, together with everything written after it.
     */
    OS,
    /**
     * When it survives a power cut, together with everything written before it. Writers that wait
     * at the same time share one sync.
     */
    SYNC
}
