//! Formats the figures as a Markdown page.

use super::Report;
use super::sustained::Figures;
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
    writeln!(page, "# Benchmarks: the indexer\n")?;
    write_summary(page, report)?;
    writeln!(
        page,
        "Measured on {} on {}. To run it: `cargo xtask bench index`.\n\n## The index\n",
        machine::today(),
        machine::describe()
    )?;
    let (documents, partitions) = (prepared.documents, prepared.partitions);
    let (files, log) = prepared.bytes;
    writeln!(
        page,
        "{documents} car offers with 13 fields and payloads of about 505 bytes, partitioned by \
         hash into {partitions} partitions: {} of partitions and {} of log. Opening the index \
         takes {}.",
        bytes(files),
        bytes(log),
        shown(prepared.open)
    )?;
    if let Some((applied, published)) = prepared.took {
        writeln!(
            page,
            "The first feed, with all documents, was applied in {} and published in {}, with one \
             thread.",
            shown(applied),
            shown(published)
        )?;
    }
    writeln!(page, "\n## Latency of a change\n")?;
    writeln!(
        page,
        "One document of one partition is changed, {} times. A reader with a handle of its own, \
         as another process would have, checks for a newer set every {}.\n",
        report.steps.len(),
        shown(super::POLL)
    )?;
    writeln!(page, "| step | median | maximum |\n|---|---|---|")?;
    type Step = (&'static str, fn(&Steps) -> Duration);
    let steps: [Step; 3] = [
        ("`upsert` returns: the change is durable", |s| s.upsert),
        ("from then until `publish` returns", |s| s.publish),
        ("from then until the reader sees the change", |s| s.visible),
    ];
    for (name, step) in steps {
        let mut times: Vec<f64> = report.steps.iter().map(|s| step(s).as_nanos() as f64).collect();
        times.sort_by(f64::total_cmp);
        let (median, max) = (quantile(&times, 0.5), quantile(&times, 1.0));
        writeln!(page, "| {name} | {} | {} |", time(median), time(max))?;
    }
    write_sustained(page, report)
}

/// The figures that matter most, in one paragraph.
fn write_summary(page: &mut String, report: &Report) -> std::fmt::Result {
    let median = |step: fn(&Steps) -> Duration| {
        let mut times: Vec<f64> = report.steps.iter().map(|s| step(s).as_nanos() as f64).collect();
        times.sort_by(f64::total_cmp);
        time(quantile(&times, 0.5))
    };
    let figures = &report.sustained;
    let [idle, busy] =
        [&figures.idle, &figures.busy].map(|times| quantile(&sorted(&times.all), 0.99));
    writeln!(
        page,
        "The change of one document is durable after {} and visible to another reader {} later \
         (medians). While {:.1} partitions per second change and are published, the p99 of queries \
         is {:.2} times the p99 without changes. There is no peer for this benchmark.\n",
        median(|s| s.upsert),
        median(|s| s.visible),
        changes_per_second(figures),
        busy / idle
    )
}

fn changes_per_second(figures: &Figures) -> f64 {
    figures.rebuilt as f64 / figures.busy_time.as_secs_f64()
}

/// The times of all kinds, sorted.
fn sorted(times: &[Vec<f64>]) -> Vec<f64> {
    let mut all = times.concat();
    all.sort_by(f64::total_cmp);
    all
}

fn write_sustained(page: &mut String, report: &Report) -> std::fmt::Result {
    let figures = &report.sustained;
    let seconds = figures.busy_time.as_secs_f64();
    let mut publishes: Vec<f64> =
        figures.publishes.iter().map(|time| time.as_nanos() as f64).collect();
    publishes.sort_by(f64::total_cmp);
    writeln!(page, "\n## Queries during changes\n")?;
    writeln!(
        page,
        "One thread runs queries, one after another, on the newest set that its reader has warmed \
         (`Reader::warm`). Idle rounds without changes alternate with busy rounds, {seconds:.0} s \
         in total, in which {:.1} partitions change per second and are published as one set. \
         Changing, publishing and warming run at a lower priority (`nice` 5). Publishing took {} \
         (median) to {}.\n",
        changes_per_second(figures),
        time(quantile(&publishes, 0.5)),
        time(quantile(&publishes, 1.0))
    )?;
    writeln!(page, "| queries | p50 idle | p50 busy | p99 idle | p99 busy | p99 ratio |")?;
    writeln!(page, "|---|---|---|---|---|---|")?;
    let (idle, busy) = (&figures.idle, &figures.busy);
    for (kind, (idle, busy)) in figures.kinds.iter().zip(idle.all.iter().zip(&busy.all)) {
        write_row(page, kind, idle, busy)?;
    }
    let count = idle.ran.len() + busy.ran.len();
    write_row(page, &format!("all {count}"), &sorted(&idle.all), &sorted(&busy.all))?;
    write_row(page, "all, without time spent waiting for a processor", &idle.ran, &busy.ran)
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
