//! Formats the figures as a Markdown page.

use super::{Report, gets, mget, redis, swaps};
use crate::bound::Bound;
use crate::machine;
use crate::units::time;
use std::fmt::Write;

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "# Benchmarks: the server\n")?;
    writeln!(
        page,
        "Measured on {} on {}. To run it: `cargo xtask bench serve`. Clients and servers share the \
         machine; servers that are compared are measured interleaved, and figures are medians of \
         the rounds.\n",
        machine::today(),
        machine::describe()
    )?;
    report.gets.iter().try_for_each(|figures| write_gets(page, figures))?;
    report.mget.iter().try_for_each(|figures| write_mget(page, figures))?;
    report.swaps.iter().try_for_each(|figures| write_swaps(page, figures))?;
    report.redis.iter().try_for_each(|figures| write_redis(page, figures))
}

fn write_target(
    page: &mut String,
    what: &str,
    value: f64,
    shown: &str,
    bound: Bound,
) -> std::fmt::Result {
    writeln!(page, "| {what} | {shown} | {} | {} |", bound.text(), bound.verdict(value))
}

fn write_targets_header(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n| target | measured | bound | |\n|---|---|---|---|")
}

fn write_gets(page: &mut String, figures: &gets::Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## GET of {} bytes\n\n{} connections of wrk, {} keys. nginx serves files of the same \
         content, with `sendfile` and `open_file_cache`.\n",
        gets::VALUE_BYTES,
        gets::CONNECTIONS,
        gets::VALUES
    )?;
    writeln!(page, "| server | requests per second | CPU time of the server per request |")?;
    writeln!(page, "|---|---|---|")?;
    for (name, rate, micros) in &figures.servers {
        writeln!(page, "| {name} | {rate:.0} | {} |", time(micros * 1e3))?;
    }
    let Some(nginx) = figures.rate("nginx, static files") else { return Ok(()) };
    write_targets_header(page)?;
    for (name, rate, _) in figures.servers.iter().filter(|(name, ..)| name.starts_with("firn")) {
        let ratio = rate / nginx;
        let what = format!("{name}: times nginx");
        write_target(page, &what, ratio, &format!("{ratio:.2}"), Bound::AtLeast(0.8))?;
    }
    writeln!(page)
}

fn write_mget(page: &mut String, figures: &mget::Figures) -> std::fmt::Result {
    let [median, p99, max] = figures.latency;
    writeln!(
        page,
        "## {} keys per request\n\nOne connection, one request after the other, binary form, a \
         table of {} records with {} bytes; {} requests, of which all values were compared.\n",
        mget::KEYS,
        mget::RECORDS,
        mget::VALUE_BYTES,
        figures.requests
    )?;
    writeln!(page, "| median | 99 % | maximum |\n|---|---|---|")?;
    writeln!(page, "| {} | {} | {} |", time(median), time(p99), time(max))?;
    write_targets_header(page)?;
    write_target(page, "median, in us", median / 1e3, &time(median), Bound::AtMost(300.0))?;
    writeln!(page)
}

fn write_swaps(page: &mut String, figures: &swaps::Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## Searches while partitions are swapped\n\n{} car offers in {} partitions, {} searches \
         per second by a schedule over {} connections. With swaps, one partition per second is \
         rebuilt, committed and published to a catalog on the same machine ({} times), and the \
         server switches to each version. Times count from the scheduled moment.\n",
        figures.documents,
        swaps::PARTITIONS,
        swaps::RATE,
        swaps::CONNECTIONS,
        figures.swaps
    )?;
    writeln!(page, "| | searches | median | 99 % | 99.9 % | maximum |\n|---|---|---|---|---|---|")?;
    let rows = [("without swaps", figures.idle), ("with swaps", figures.busy)];
    for ((name, latency), requests) in rows.iter().zip(figures.requests) {
        let [a, b, c, d] = latency.map(time);
        writeln!(page, "| {name} | {requests} | {a} | {b} | {c} | {d} |")?;
    }
    write_targets_header(page)?;
    let p99 = figures.busy[1];
    write_target(page, "99 % with swaps, in ms", p99 / 1e6, &time(p99), Bound::AtMost(5.0))?;
    writeln!(page)
}

fn write_redis(page: &mut String, figures: &redis::Figures) -> std::fmt::Result {
    writeln!(
        page,
        "## The Redis protocol\n\nredis-benchmark with {} connections, {} keys, values of {} \
         bytes. Both servers have one thread for commands. A SET of firn-serve is in its log \
         before the reply. Requests per second, and 99 % \
         of the latencies.\n",
        redis::CONNECTIONS,
        redis::KEYS,
        redis::VALUE_BYTES
    )?;
    writeln!(page, "| test | {} |", figures.servers.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(figures.servers.len()))?;
    for (name, servers) in &figures.tests {
        let cells = servers.iter().map(|(rate, p99)| format!("{rate:.0}, {p99:.2} ms"));
        writeln!(page, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    write_targets_header(page)?;
    for (name, servers) in &figures.tests {
        let [(ours, _), (peer, _), ..] = servers[..] else { continue };
        let bound = if name.contains("pipelined") || name.contains("MGET") { 1.5 } else { 1.0 };
        let what = format!("{name}: times redis-server");
        let ratio = ours / peer;
        write_target(page, &what, ratio, &format!("{ratio:.2}"), Bound::AtLeast(bound))?;
    }
    writeln!(page, "\n{WHY_SETS_COST_MORE}\n")?;
    writeln!(
        page,
        "99 % of the latencies at half of the peak rate, one command at a time per connection, \
         counted from the scheduled moment:\n\n| command, rate | {} |",
        figures.servers.join(" | ")
    )?;
    writeln!(page, "|---|{}", "---|".repeat(figures.servers.len()))?;
    for (name, rate, latencies) in &figures.paced {
        let cells = latencies.iter().map(|millis| format!("{millis:.2} ms"));
        let cells = cells.collect::<Vec<_>>().join(" | ");
        writeln!(page, "| {name}, {rate:.0} per second | {cells} |")?;
    }
    Ok(())
}

/// Measured on 2026-11-29 with the CPU times of the server's threads in /proc.
const WHY_SETS_COST_MORE: &str = "\
redis-server without `appendonly` writes nothing. In 3,000,000 SETs with 16 pipelined, 39 % of \
firn-serve's CPU time was that of the log store's maintenance: compaction of the records that were \
replaced, and sealing and preparing segments. It runs on the processor that the client needs. \
Without pipelining, the thread for commands was idle for a third of the time, and three quarters \
of its CPU time, 8.7 us per SET, were system calls of the connections: the client sets the pace.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_what_was_measured_and_whether_it_is_enough() {
        let server = |name: &str, rate| (name.to_string(), rate, 10.0);
        let servers = vec![server("nginx, static files", 100.0), server("firn-serve, table", 70.0)];
        let report = Report { gets: Some(gets::Figures { servers }), ..Report::default() };
        let text = page(&report);
        assert!(
            text.contains("| firn-serve, table: times nginx | 0.70 | at least 0.8 | **missed** |")
        );
        assert!(!text.contains("Redis"));
    }
}
