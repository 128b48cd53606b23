//! Tokens and roles.
//!
//! A token is compared by its BLAKE3 hash, in constant time: the duration of a comparison says
//! nothing about the tokens of the server. The tokens themselves are not kept.

use crate::config;
use firndb::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// What a client may do. Each role includes the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read stores, and the server's statistics.
    Read,
    /// Also write to log stores.
    Write,
    /// Also back up, compact and verify stores, and add and remove them.
    Admin,
}

impl Role {
    /// The role of this name.
    pub fn parse(name: &str) -> Option<Role> {
        [Role::Read, Role::Write, Role::Admin].into_iter().find(|role| role.name() == name)
    }

    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Admin => "admin",
        }
    }
}

/// The shortest token in bytes: a shorter one could be guessed.
const MIN_TOKEN: usize = 16;

/// The tokens of a server.
#[derive(Default)]
pub struct Tokens {
    tokens: Vec<(blake3::Hash, Role)>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.tokens.len())
    }
}

impl Tokens {
    /// Reads the tokens from their files and variables.
    ///
    /// Errors: `InvalidArgument` if a source has no token or a token is shorter than 16 bytes;
    /// `Io` or `NotFound` if a file cannot be read.
    pub fn load(sources: &[config::TokenSource]) -> Result<Tokens> {
        let mut tokens = Tokens::default();
        for source in sources {
            match (&source.file, &source.env) {
                (Some(file), None) => tokens.add_file(file, source.role)?,
                (None, Some(name)) => {
                    let text = std::env::var(name).map_err(|_| {
                        Error::invalid(format!("the variable {name} with a token is not set"))
                    })?;
                    tokens.add(&text, source.role).map_err(|e| {
                        Error::invalid(format!("the variable {name}: {}", e.message()))
                    })?;
                }
                _ => {
                    let message = "tokens come either from a `file` or from a variable `env`";
                    return Err(Error::invalid(message));
                }
            }
        }
        Ok(tokens)
    }

    fn add_file(&mut self, file: &Path, role: Role) -> Result<()> {
        let text = std::fs::read_to_string(file).map_err(|e| Error::io("read", file, e))?;
        let before = self.tokens.len();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.add(line, role).map_err(|e| e.in_file(file))?;
        }
        match self.tokens.len() > before {
            true => Ok(()),
            false => Err(Error::invalid("the file has no token").in_file(file)),
        }
    }

    /// Adds a token.
    fn add(&mut self, token: &str, role: Role) -> Result<()> {
        let token = token.trim();
        if token.len() < MIN_TOKEN {
            let message = format!("a token has fewer than {MIN_TOKEN} bytes: it could be guessed");
            return Err(Error::invalid(message));
        }
        self.tokens.push((blake3::hash(token.as_bytes()), role));
        Ok(())
    }

    /// Whether clients need a token.
    pub fn is_required(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// What a client may do that has sent a token or none, and may have presented a certificate;
    /// `None` if it needs a token that is known.
    pub fn role_of(
        &self,
        tls: Option<&config::Tls>,
        has_certificate: bool,
        token: Option<&[u8]>,
    ) -> Option<Role> {
        let by_certificate = tls.filter(|_| has_certificate).map(|tls| {
            // Without tokens a certificate that was verified is enough for everything.
            let all = if self.is_required() { Role::Read } else { Role::Admin };
            tls.client_role.unwrap_or(all)
        });
        match token {
            _ if !self.is_required() => Some(by_certificate.unwrap_or(Role::Admin)),
            None => by_certificate,
            Some(token) => {
                let role = self.role(token)?;
                Some(by_certificate.map_or(role, |other| role.max(other)))
            }
        }
    }

    /// The highest role of a token; `None` if it is unknown.
    pub fn role(&self, token: &[u8]) -> Option<Role> {
        let hash = blake3::hash(token);
        // All tokens are compared, so that the duration does not depend on the match.
        let matching = self.tokens.iter().filter(|(known, _)| *known == hash);
        matching.map(|(_, role)| *role).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TokenSource;

    #[test]
    fn a_token_has_the_highest_of_its_roles() {
        let mut tokens = Tokens::default();
        assert!(!tokens.is_required());
        tokens.add("read-0123456789abcdef", Role::Read).unwrap();
        tokens.add("both-0123456789abcdef", Role::Read).unwrap();
        tokens.add("both-0123456789abcdef", Role::Admin).unwrap();
        assert_eq!(tokens.role(b"read-0123456789abcdef"), Some(Role::Read));
        assert_eq!(tokens.role(b"both-0123456789abcdef"), Some(Role::Admin));
        for wrong in ["", "read-0123456789abcde", "read-0123456789abcdef "] {
            assert_eq!(tokens.role(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert!(tokens.is_required());
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn short_and_missing_tokens_are_errors_that_name_the_source() {
        let source = |file: Option<&str>, env: Option<&str>| {
            let file = file.map(Into::into);
            [TokenSource { role: Role::Read, file, env: env.map(Into::into) }]
        };
        let message = |sources: &[TokenSource]| Tokens::load(sources).unwrap_err().to_string();
        assert!(message(&source(None, Some("FIRNDB_NO_SUCH"))).contains("FIRNDB_NO_SUCH"));
        assert!(message(&source(Some("/no/such/file"), None)).contains("/no/such/file"));
        assert!(message(&source(Some("x"), Some("y"))).contains("either"));
        assert!(Tokens::default().add("short", Role::Read).is_err());
    }
}
