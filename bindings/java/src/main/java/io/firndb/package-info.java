/**
 * Log stores, tables and collections.
 *
 * <table class="plain">
 *   <caption>Where to begin</caption>
 *   <tr><td>{@link io.firndb.LogStore}</td><td>keys and values that change at any time</td></tr>
 *   <tr><td>{@link io.firndb.TableBuilder}, {@link io.firndb.Table}</td>
 *       <td>keys and values that are written in one go and then only read</td></tr>
 *   <tr><td>{@link io.firndb.ApproximateTable}</td>
 *       <td>values of 1 to 16 bytes without their keys, in little memory</td></tr>
 *   <tr><td>{@link io.firndb.ShardedTable}</td>
 *       <td>a table in several files, which tasks or machines build apart</td></tr>
 *   <tr><td>{@link io.firndb.Collection}, {@link io.firndb.CollectionReader}</td>
 *       <td>documents that are filtered, sorted, counted and faceted</td></tr>
 *   <tr><td>{@link io.firndb.Indexer}</td>
 *       <td>feeds of documents, from which it keeps a collection up to date</td></tr>
 *   <tr><td>{@link io.firndb.Catalog}, {@link io.firndb.CatalogReader}</td>
 *       <td>versions of tables and collections, to which readers switch while queries run</td></tr>
 * </table>
 *
 * <p>Errors are {@link io.firndb.FirnException}, unchecked, with a class per kind; wrong arguments
 * are {@link java.lang.IllegalArgumentException}, and calls of a closed object
 * {@link java.lang.IllegalStateException}. An absent key is {@code null} and not an error.
 */
package io.firndb;
