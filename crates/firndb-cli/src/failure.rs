//! Command failures: one line on standard error, or a JSON object; the exit code follows the kind.

use crate::escape::escaped;
use crate::output::is_closed_pipe;
use firndb::{Error, ErrorKind, redact, redact_url};
use serde_json::{Value as Json, json};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// An error, with the query or schema text that the error points into.
pub struct Failure {
    error: Error,
    text: Option<String>,
    note: Option<String>,
    /// Help, or a mistake on the command line, of a command whose store was detected.
    usage: Option<Box<clap::Error>>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, text: None, note: None, usage: None }
    }
}

impl Failure {
    /// An error in the text of a query or a schema.
    pub fn in_text(error: Error, text: &str) -> Failure {
        Failure { text: Some(text.to_string()), ..Failure::from(error) }
    }

    /// Help, or a mistake on a command line.
    pub fn usage(error: clap::Error) -> Failure {
        let plain = Error::invalid("the command line is wrong");
        Failure { usage: Some(Box::new(error)), ..Failure::from(plain) }
    }

    /// Adds a note to the failure.
    pub fn noting(self, note: String) -> Failure {
        Failure { note: Some(note), ..self }
    }

    /// Prints the failure, without credentials in URLs, and returns the exit code of the process.
    pub fn report(&self, json: bool) -> ExitCode {
        if is_closed_pipe(&self.error) {
            return ExitCode::SUCCESS;
        }
        if let Some(usage) = &self.usage {
            return crate::usage(usage);
        }
        if json {
            say(&self.to_json().to_string());
        } else {
            if let Some(note) = &self.note {
                say(&format!("note: {}", redact(note)));
            }
            say(&format!("error: {}", redact(&self.error.to_string())));
            if let (Some(text), Some(_)) = (&self.text, self.error.span()) {
                // The message, which is the last line, is already printed above.
                let shown = firndb::search::point_at(text, &self.error);
                shown.lines().take(2).for_each(|line| say(&format!("  {line}")));
            }
        }
        ExitCode::from(self.error.kind().exit_code())
    }

    fn to_json(&self) -> Json {
        let error = &self.error;
        let message = redact(error.message());
        let mut object = json!({ "kind": error.kind().name(), "message": message });
        if let Some(file) = error.file() {
            object["file"] = Json::from(redact_url(&file.display().to_string()));
        }
        if let Some(offset) = error.offset() {
            object["offset"] = Json::from(offset);
        }
        if let Some((start, end)) = error.span() {
            object["span"] = json!([start, end]);
        }
        if let Some(note) = &self.note {
            object["note"] = Json::from(redact(note));
        }
        json!({ "error": object })
    }
}

/// Whether failures are printed as JSON, for reports that no command makes.
static JSON: AtomicBool = AtomicBool::new(false);

/// Prints failures as JSON from now on.
pub fn use_json() {
    JSON.store(true, Ordering::Relaxed);
}

/// Prints that a signal ended the command.
pub fn report_interrupt(message: &str, signal: &str) {
    if std::io::stderr().is_terminal() {
        // Removes a progress bar, which may have been drawn in this line.
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
    let message = redact(message);
    match JSON.load(Ordering::Relaxed) {
        false => say(&message),
        true => {
            let kind = ErrorKind::Cancelled.name();
            let error = json!({ "kind": kind, "message": message, "signal": signal });
            say(&json!({ "error": error }).to_string());
        }
    }
}

/// Prints lines on standard error; a terminal gets no control characters. An error of standard
/// error cannot be reported.
pub fn say(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = match stderr.is_terminal() {
        true => writeln!(stderr, "{}", escaped(text.as_bytes())),
        false => writeln!(stderr, "{text}"),
    };
}
