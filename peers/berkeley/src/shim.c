/* Berkeley DB's functions are members of structures that only its header defines. */

#include <db.h>
#include <stdlib.h>
#include <string.h>

struct bdb {
    DB_ENV *env;
    DB *db;
};

/* Opens or creates a hash database in an environment with transactions, whose log the operating
 * system has when a put returns (DB_TXN_WRITE_NOSYNC). */
int bdb_open(struct bdb **out, const char *dir, unsigned long long cache, unsigned records,
             unsigned item)
{
    struct bdb *self = calloc(1, sizeof *self);
    int e;
    u_int32_t flags = DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN | DB_INIT_LOCK |
                      DB_RECOVER | DB_THREAD | DB_PRIVATE;
    if (!self)
        return -1;
    *out = self;
    if ((e = db_env_create(&self->env, 0)) ||
        (e = self->env->set_cachesize(self->env, cache >> 30, cache & ((1 << 30) - 1), 1)) ||
        (e = self->env->set_lg_bsize(self->env, 4 << 20)) ||
        (e = self->env->set_lg_max(self->env, 64 << 20)) ||
        (e = self->env->set_flags(self->env, DB_TXN_WRITE_NOSYNC | DB_AUTO_COMMIT, 1)) ||
        (e = self->env->log_set_config(self->env, DB_LOG_AUTO_REMOVE, 1)) ||
        (e = self->env->open(self->env, dir, flags, 0)) ||
        (e = db_create(&self->db, self->env, 0)) ||
        (e = self->db->set_h_nelem(self->db, records)) ||
        (e = self->db->set_pagesize(self->db, 4096)) ||
        (e = self->db->set_h_ffactor(self->db, 3000 / item)))
        return e;
    return self->db->open(self->db, NULL, "data.db", NULL, DB_HASH,
                          DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0644);
}

int bdb_put(struct bdb *self, const void *key, unsigned key_length, const void *value,
            unsigned length)
{
    DBT k, v;
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    k.data = (void *)key;
    k.size = key_length;
    v.data = (void *)value;
    v.size = length;
    return self->db->put(self->db, NULL, &k, &v, 0);
}

/* Length of the value, -1 if it is absent, -2 after an error, whose number is in *error. */
long bdb_get(struct bdb *self, const void *key, unsigned key_length, void *buffer, unsigned most,
             int *error)
{
    DBT k, v;
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    k.data = (void *)key;
    k.size = key_length;
    v.data = buffer;
    v.ulen = most;
    v.flags = DB_DBT_USERMEM;
    *error = self->db->get(self->db, NULL, &k, &v, 0);
    if (*error == DB_NOTFOUND)
        return -1;
    return *error ? -2 : (long)v.size;
}

/* Writes pages back and drops the older log, once this many KiB of log were written. */
int bdb_checkpoint(struct bdb *self, unsigned kib)
{
    return self->env->txn_checkpoint(self->env, kib, 0, 0);
}

int bdb_close(struct bdb *self)
{
    int e = self->env->txn_checkpoint(self->env, 0, 0, 0);
    int f = self->db->close(self->db, DB_NOSYNC);
    int g = self->env->close(self->env, 0);
    free(self);
    return e ? e : f ? f : g;
}

const char *bdb_message(int error)
{
    return db_strerror(error);
}
