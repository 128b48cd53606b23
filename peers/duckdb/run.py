"""DuckDB as a peer: one table, tags in a LIST column, one thread, statements prepared once.

A time covers binding the parameters, running the statement and fetching its rows into Python.
"""

import os
import resource
import statistics
import sys
import time

import duckdb

FILE = "data.duckdb"
MASK = 2**64 - 1

# The columns of a page are id, first sort key, second sort key, payload.
SQL = {
    "Q1": "select count(*) from car where region_id = ?",
    "Q2": "select id, date, 0, payload from car where region_id = ? and mark = ? "
    "and price between ? and ? order by date desc limit 10",
    "Q3": "select id, price, date, null from car where mark in (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "and year >= ? and color <> ? order by price, date desc limit 50",
    "Q4": "select count(*) from car where lat between ? and ? and lon between ? and ?",
    "Q5": "select id, date, 0, null from car order by date desc limit 20",
    "Q6": "select count(*) from car where list_has_any(tags, [?, ?, ?]) and price <= ?",
    "A": "select count(*) from pair where f = ?",
    "B": "select count(*) from pair where f = ? and g = ?",
}
LIMITS = {"Q2": 10, "Q3": 50, "Q5": 20}
KINDS = {"cars": ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"], "table1": ["A", "B"]}

COLUMNS = {
    "cars": "{'id': 'UBIGINT', 'region_id': 'INTEGER', 'mark': 'VARCHAR', 'model': 'VARCHAR', "
    "'year': 'INTEGER', 'price': 'INTEGER', 'mileage': 'INTEGER', 'date': 'BIGINT', "
    "'lat': 'INTEGER', 'lon': 'INTEGER', 'body_type': 'VARCHAR', 'color': 'VARCHAR', "
    "'tags': 'VARCHAR', 'payload': 'VARCHAR'}",
    "table1": "{'id': 'UBIGINT', 'f': 'VARCHAR', 'g': 'VARCHAR'}",
}


def build(workload, data, directory):
    """Loads the file in one statement; offers are kept newest first."""
    db = duckdb.connect(os.path.join(directory, FILE))
    source = (
        f"read_csv('{data}', delim='\t', header=true, quote='', escape='', "
        f"columns={COLUMNS[workload]})"
    )
    if workload == "cars":
        db.execute(
            "create table car as select * exclude tags, "
            "case when tags is null or tags = '' then [] else string_split(tags, ',') end as tags "
            f"from {source} order by date desc"
        )
    else:
        db.execute(f"create table pair as select * from {source}")
    db.execute("checkpoint")
    db.close()


def open_db(workload, directory):
    db = duckdb.connect(os.path.join(directory, FILE), read_only=True)
    db.execute("set threads = 1")
    for kind in KINDS[workload]:
        slots = SQL[kind].count("?")
        text = SQL[kind]
        for slot in range(1, slots + 1):
            text = text.replace("?", f"${slot}", 1)
        db.execute(f"prepare {kind} as {text}")
    return db


def literal(value):
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def prepare(line):
    """The statement that binds a query's parameters and runs it."""
    kind, *columns = line.split("\t")
    if kind == "Q1":
        parameters = [int(columns[0])]
    elif kind == "Q2":
        parameters = [int(columns[0]), columns[1], int(columns[2]), int(columns[3])]
    elif kind == "Q3":
        parameters = [*columns[0].split(","), int(columns[1]), columns[2]]
    elif kind == "Q4":
        parameters = [int(column) for column in columns]
    elif kind == "Q6":
        parameters = [*columns[0].split(","), int(columns[1])]
    else:
        parameters = columns
    arguments = ", ".join(literal(parameter) for parameter in parameters)
    return f"execute {kind}({arguments})" if parameters else f"execute {kind}"


def mix(x):
    """The finalizer of SplitMix64, as in crates/bench-protocol/src/search/answer.rs."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fold(kind, rows):
    """Count and checksum of an answer."""
    if kind not in LIMITS:
        return rows[0][0], mix(rows[0][0])
    full = len(rows) == LIMITS[kind]
    total = mix(len(rows))
    for place, (number, first, second, payload) in enumerate(rows):
        total += mix((first & MASK) ^ mix((second & MASK) ^ mix(place)))
        if not full or (first, second) != rows[-1][1:3]:
            payload_sum = sum(payload.encode()) if payload else 0
            total += mix(number ^ mix(payload_sum))
    return len(rows), total & MASK


def run(db, kind, path, repeats, budget):
    """Warms up, then times the queries one after another, as crates/bench-protocol/src/search/serve.rs."""
    with open(path, encoding="utf-8") as lines:
        mine = [line.rstrip("\n") for line in lines]
    queries = [prepare(line) for line in mine if line.split("\t")[0] == kind]
    start = time.monotonic()
    for query in queries:
        if time.monotonic() - start > budget / 4:
            break
        db.execute(query).fetchall()
    start = time.monotonic()
    answers = []
    for number, query in enumerate(queries):
        if number >= 20 and time.monotonic() - start > budget:
            break
        before = time.perf_counter_ns()
        for _ in range(repeats):
            rows = db.execute(query).fetchall()
        nanos = (time.perf_counter_ns() - before) / repeats
        answers.append((nanos, *fold(kind, rows)))
    for nanos, count, checksum in answers:
        print(f"{nanos}\t{count}\t{checksum}")
    print("done\t0", flush=True)


def status(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        line = next((line for line in lines if line.startswith(key)), "0 0")
    return int(line.split()[1]) * 1024


def disk_usage(directory):
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def answer_build(workload, data, directory):
    start = time.perf_counter_ns()
    build(workload, data, directory)
    wall = time.perf_counter_ns() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int((usage.ru_utime + usage.ru_stime) * 1e9)
    print(f"built\t{wall}\t{cpu}\t{status('VmHWM:')}\t{disk_usage(directory)}", flush=True)


def answer_open(workload, directory, times):
    before = status("RssAnon:")
    nanos = []
    db = None
    for _ in range(times):
        if db:
            db.close()
        start = time.perf_counter_ns()
        db = open_db(workload, directory)
        nanos.append(time.perf_counter_ns() - start)
        if len(nanos) == 1:
            memory = max(0, status("RssAnon:") - before)
    print(f"opened\t{int(statistics.median(nanos))}\t{memory}", flush=True)
    return db


def main():
    db = None
    for line in sys.stdin:
        job, *words = line.rstrip("\n").split("\t")
        if job == "hello":
            print(f"hello\tDuckDB {duckdb.__version__}", flush=True)
        elif job == "build":
            answer_build(*words)
        elif job == "open":
            db = answer_open(words[0], words[1], int(words[2]))
        elif job == "run":
            run(db, words[0], words[1], int(words[2]), int(words[3]) / 1000)
        elif job == "extras":
            print("done", flush=True)
        else:
            print(f"error\tthere is no job {job}", flush=True)


main()
