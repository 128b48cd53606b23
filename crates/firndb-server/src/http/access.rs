//! Who may send a request: tokens, client certificates, and the origins of web pages.

use super::problem::Problem;
use super::route::Route;
use super::{Context, required_role};
use crate::auth::Role;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest id of a request that is taken from the client.
const MAX_ID: usize = 64;

/// The id of a request: the client's, if it has sent one, otherwise a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0u8));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let given = headers.get(super::REQUEST_ID).and_then(|id| id.to_str().ok());
    let plain = |id: &&str| {
        let valid = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(valid)
    };
    match given.filter(plain) {
        Some(id) => id.to_string(),
        None => {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            format!("{:016x}", SEED.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        }
    }
}

/// An error if the client may not send this request.
pub fn check(
    context: &Context,
    route: &Route<'_>,
    request: &Request<Incoming>,
) -> Result<(), Problem> {
    check_origin(context, request.headers())?;
    let Some(required) = required_role(route, request.method()) else { return Ok(()) };
    let role = role(context, request.headers())?;
    match role >= required {
        true => Ok(()),
        false => Err(Problem::forbidden(format!(
            "this needs the role `{}`, and the client has the role `{}`",
            required.name(),
            role.name()
        ))),
    }
}

/// The role of the client.
fn role(context: &Context, headers: &HeaderMap) -> Result<Role, Problem> {
    let tokens = context.app.tokens.load();
    let tls = context.app.config.tls.as_ref();
    let by_certificate = tls.filter(|_| context.peer.has_certificate).map(|tls| {
        // Without tokens a certificate that was verified is enough for everything.
        let all = if tokens.is_required() { Role::Read } else { Role::Admin };
        tls.client_role.unwrap_or(all)
    });
    let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let Some(given) = given else {
        return match by_certificate {
            Some(role) => Ok(role),
            None if tokens.is_required() => Err(Problem::unauthorized()),
            None => Ok(Role::Admin),
        };
    };
    if !tokens.is_required() {
        return Ok(by_certificate.unwrap_or(Role::Admin));
    }
    let scheme = b"bearer ";
    let is_bearer =
        given.len() > scheme.len() && given[..scheme.len()].eq_ignore_ascii_case(scheme);
    let token = if is_bearer { given[scheme.len()..].trim_ascii() } else { &[] };
    let role = tokens.role(token).ok_or_else(Problem::unauthorized)?;
    Ok(by_certificate.map_or(role, |other| role.max(other)))
}

/// An error if a web page of an origin that is not allowed sends the request. A browser on the
/// machine of a server without tokens could otherwise be used by any page.
fn check_origin(context: &Context, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let allowed = &context.app.config.http.cors_origins;
    let origin = origin.to_str().unwrap_or_default();
    let own = headers.get(HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| {
        origin.split_once("://").is_some_and(|(_, authority)| authority == host)
    });
    match own || allowed.iter().any(|known| known == "*" || known == origin) {
        true => Ok(()),
        false => {
            let detail = "web pages of this origin may not call the server: see --cors-origin";
            Err(Problem::forbidden(detail))
        }
    }
}
