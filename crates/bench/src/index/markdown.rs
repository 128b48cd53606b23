//! Formats the figures as a Markdown page.

use super::Report;
use super::visible::Steps;
use crate::machine;
use crate::units::{bytes, quantile, time};
use std::fmt::Write;
use std::time::Duration;

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn shown(duration: Duration) -> String {
    time(duration.as_nanos() as f64)
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    let prepared = &report.prepared;
    writeln!(page, "# Benchmark: the Indexer\n")?;
    writeln!(page, "{}, {}\n", machine::today(), machine::describe())?;
    let (documents, partitions) = (prepared.documents, prepared.partitions);
    let (files, log) = prepared.bytes;
    writeln!(
        page,
        "An index of {documents} car offers with 13 fields and payloads of about 505 bytes, in \
         {partitions} partitions by hash: {} of partitions, {} of log. Opening it takes {}.",
        bytes(files),
        bytes(log),
        shown(prepared.open)
    )?;
    if let Some((applied, published)) = prepared.took {
        writeln!(
            page,
            "The first feed with all of them was taken in {} and published in {}, with one thread.",
            shown(applied),
            shown(published)
        )?;
    }
    writeln!(page, "\n## Until a change is seen\n")?;
    writeln!(
        page,
        "One document of one partition is changed, {} times. Another reader asks every {} whether \
         there is a newer set.\n",
        report.steps.len(),
        shown(super::POLL)
    )?;
    writeln!(page, "| step | median | maximum |\n|---|---|---|")?;
    type Step = (&'static str, fn(&Steps) -> Duration);
    let steps: [Step; 3] = [
        ("`upsert` returns: the change is durable", |s| s.upsert),
        ("from there: `publish` returns", |s| s.publish),
        ("from there: the reader has it", |s| s.visible),
    ];
    for (name, step) in steps {
        let mut times: Vec<f64> = report.steps.iter().map(|s| step(s).as_nanos() as f64).collect();
        times.sort_by(f64::total_cmp);
        let (median, max) = (quantile(&times, 0.5), quantile(&times, 1.0));
        writeln!(page, "| {name} | {} | {} |", time(median), time(max))?;
    }
    write_sustained(page, report)
}

fn write_sustained(page: &mut String, report: &Report) -> std::fmt::Result {
    let figures = &report.sustained;
    let seconds = figures.busy_time.as_secs_f64();
    let mut publishes: Vec<f64> =
        figures.publishes.iter().map(|time| time.as_nanos() as f64).collect();
    publishes.sort_by(f64::total_cmp);
    writeln!(page, "\n## Queries beside changes\n")?;
    writeln!(
        page,
        "One thread asks queries, one after the other, of the newest set that its reader has \
         warmed (`Reader::warm`). In turns nothing else happens, and {:.1} partitions change in \
         each second and are published as one set, for {seconds:.0} s altogether; changing, \
         publishing and warming have a lower priority (`nice` 5). A publish took {} (median) to \
         {}.\n",
        figures.rebuilt as f64 / seconds,
        time(quantile(&publishes, 0.5)),
        time(quantile(&publishes, 1.0))
    )?;
    writeln!(page, "| queries | p50 idle | p50 busy | p99 idle | p99 busy | p99 ratio |")?;
    writeln!(page, "|---|---|---|---|---|---|")?;
    let (idle, busy) = (&figures.idle, &figures.busy);
    for (kind, (idle, busy)) in figures.kinds.iter().zip(idle.all.iter().zip(&busy.all)) {
        write_row(page, kind, idle, busy)?;
    }
    let all = |times: &[Vec<f64>]| {
        let mut all = times.concat();
        all.sort_by(f64::total_cmp);
        all
    };
    let count = idle.ran.len() + busy.ran.len();
    write_row(page, &format!("all {count}"), &all(&idle.all), &all(&busy.all))?;
    write_row(page, "all, while they had a processor", &idle.ran, &busy.ran)
}

fn write_row(page: &mut String, name: &str, idle: &[f64], busy: &[f64]) -> std::fmt::Result {
    let at = |times, share| time(quantile(times, share));
    let ratio = quantile(busy, 0.99) / quantile(idle, 0.99);
    writeln!(
        page,
        "| {name} | {} | {} | {} | {} | {ratio:.2} |",
        at(idle, 0.5),
        at(busy, 0.5),
        at(idle, 0.99),
        at(busy, 0.99)
    )
}
