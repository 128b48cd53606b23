//! The server: INFO, CONFIG GET, TIME, WAIT.

use super::connection::VERSION;
use super::strings::int;
use super::{Fail, Outcome, text};
use crate::redis::codec::Args;
use crate::redis::glob;
use crate::redis::number::integer;
use crate::redis::reply::Out;
use crate::redis::session::{Context, Session};
use crate::redis::unit::Unit;
use crate::stores::Source;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// TIME
pub fn time<'a>(_: &mut Unit<'_, 'a>, _: Args<'a>, out: &mut Out) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.array(2);
    out.bulk_integer(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    out.bulk_integer(i64::from(now.subsec_micros()));
    Ok(())
}

/// WAIT numreplicas timeout
pub fn wait<'a>(_: &mut Unit<'_, 'a>, args: Args<'a>, out: &mut Out) -> Outcome {
    int(args.at(1))?;
    let timeout = integer(args.at(2));
    match timeout {
        None => Err(text("ERR timeout is not an integer or out of range")),
        Some(..0) => Err(text("ERR timeout is negative")),
        // There are no replicas to wait for.
        Some(_) => {
            out.integer(0);
            Ok(())
        }
    }
}

/// CONFIG GET pattern [pattern ...]
pub fn config(_: &mut Session, context: &Context<'_>, args: Args<'_>, out: &mut Out) -> Outcome {
    if super::uppercase(args.at(1), &mut [0; 16]) != b"GET" {
        return Err(Fail::subcommand("CONFIG", args.at(1)));
    }
    if args.count() < 3 {
        return Err(Fail::arity("config|get"));
    }
    let options = options(context);
    let is_wanted = |name: &str| {
        args.from(2).any(|pattern| {
            let pattern = pattern.to_ascii_lowercase();
            glob::matches(&pattern, name.as_bytes())
        })
    };
    let wanted: Vec<_> = options.iter().filter(|(name, _)| is_wanted(name)).collect();
    out.map(wanted.len());
    for (name, value) in wanted {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    Ok(())
}

/// Options of Redis for which the server has an answer.
fn options(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let config = &context.app.config;
    vec![
        ("appendonly", "no".to_string()),
        ("client-query-buffer-limit", config.limits.body_bytes.to_string()),
        ("databases", context.databases.len().to_string()),
        ("maxclients", config.limits.connections.to_string()),
        ("maxmemory", "0".to_string()),
        ("maxmemory-policy", "noeviction".to_string()),
        ("proto-max-bulk-len", config.limits.body_bytes.to_string()),
        ("save", String::new()),
        ("timeout", config.redis.idle_seconds.to_string()),
    ]
}

/// INFO [section [section ...]]
pub fn info(_: &mut Session, context: &Context<'_>, args: Args<'_>, out: &mut Out) -> Outcome {
    type Section = (&'static str, fn(&Context<'_>) -> String);
    const SECTIONS: [Section; 7] = [
        ("Server", server),
        ("Clients", clients),
        ("Memory", memory),
        ("Persistence", persistence),
        ("Stats", stats),
        ("Replication", replication),
        ("Keyspace", keyspace),
    ];
    let all = args.count() == 1
        || args.from(1).any(|word| {
            [&b"all"[..], b"default", b"everything"].iter().any(|a| word.eq_ignore_ascii_case(a))
        });
    let is_wanted =
        |name: &str| all || args.from(1).any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let sections = SECTIONS.iter().filter(|(name, _)| is_wanted(name));
    let texts: Vec<_> =
        sections.map(|(name, write)| format!("# {name}\r\n{}", write(context))).collect();
    out.verbatim(&texts.join("\r\n"));
    Ok(())
}

fn server(context: &Context<'_>) -> String {
    let uptime = context.started.elapsed().as_secs();
    format!(
        "redis_version:{VERSION}\r\nfirndb_version:{}\r\nredis_mode:standalone\r\nos:{}\r\n\
         arch_bits:{}\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{uptime}\r\n\
         uptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        usize::BITS,
        std::process::id(),
        context.port,
        uptime / 86_400,
    )
}

fn clients(context: &Context<'_>) -> String {
    let limits = &context.app.config.limits;
    let connected = context.connected();
    format!("connected_clients:{connected}\r\nmaxclients:{}\r\n", limits.connections)
}

/// Resident memory, if the system says.
fn memory(_: &Context<'_>) -> String {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let bytes = pages.unwrap_or(0) * 4096;
    format!(
        "used_memory:{bytes}\r\nused_memory_rss:{bytes}\r\nmaxmemory:0\r\n\
             maxmemory_policy:noeviction\r\n"
    )
}

fn persistence(_: &Context<'_>) -> String {
    "loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n".to_string()
}

fn stats(context: &Context<'_>) -> String {
    let metrics = &context.app.metrics;
    let accepted = metrics.connections_accepted.get();
    let refused = metrics.connections_refused.get();
    let commands = metrics.redis.total();
    format!(
        "total_connections_received:{accepted}\r\ntotal_commands_processed:{commands}\r\n\
         rejected_connections:{refused}\r\n"
    )
}

fn replication(_: &Context<'_>) -> String {
    "role:master\r\nconnected_slaves:0\r\n".to_string()
}

fn keyspace(context: &Context<'_>) -> String {
    let mut text = String::new();
    for (n, database) in context.databases.iter().enumerate() {
        let keys = context.app.stores.with(&database.name, |entry| match &entry.source {
            Source::Log(store) => Some(store.len()),
            _ => Some(entry.table().ok()?.get_ref().ok()?.len()),
        });
        if let Ok(Some(keys)) = keys
            && keys > 0
        {
            let _ = write!(text, "db{n}:keys={keys},expires=0,avg_ttl=0\r\n"); // Cannot fail.
        }
    }
    text
}
