//! Counters of the Redis interface.

use super::commands::COMMANDS;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counters of the Redis interface.
pub struct Metrics {
    /// Commands that ran, by their place in the table.
    commands: Vec<Counter>,
    /// Replies that were errors.
    pub errors: Counter,
    /// Transactions and writes that ran again, because another client changed a record.
    pub conflicts: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    command: &'static str,
}

impl Metrics {
    /// Counters at 0.
    pub fn register(registry: &mut Registry) -> Metrics {
        let family = Family::<Labels, Counter>::default();
        let commands = COMMANDS.iter().map(|command| {
            let labels = Labels { command: command.name };
            family.get_or_create_owned(&labels)
        });
        let commands = commands.collect();
        let (errors, conflicts) = (Counter::default(), Counter::default());
        registry.register("redis_commands", "Redis commands that ran", family);
        registry.register(
            "redis_errors",
            "Replies to Redis commands that were errors",
            errors.clone(),
        );
        registry.register(
            "redis_conflicts",
            "Writes of Redis commands that ran again, because a record was changed meanwhile",
            conflicts.clone(),
        );
        Metrics { commands, errors, conflicts }
    }

    /// Counts a command of the table.
    #[inline]
    pub fn count(&self, command: usize) {
        self.commands[command].inc();
    }

    /// The number of all commands.
    pub fn total(&self) -> u64 {
        self.commands.iter().map(Counter::get).sum()
    }
}
