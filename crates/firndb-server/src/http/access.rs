//! Who may send a request: tokens, client certificates, and the origins of web pages.

use super::problem::Problem;
use super::route::Route;
use super::{Context, cors, required_role};
use crate::auth::Role;
use crate::config;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::{Request, Version};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
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

/// An error if the client may not send this request. `route` is `None` for a path that has none: a
/// client without a token does not learn which paths there are.
pub fn check<B>(
    context: &Context,
    route: Option<&Route<'_>>,
    request: &Request<B>,
) -> Result<(), Problem> {
    check_origin(context, request.headers())?;
    let required = match route {
        Some(route) => required_role(route, request.method()),
        None => Some(Role::Read),
    };
    let Some(required) = required else { return Ok(()) };
    check_host(context, request)?;
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

/// An error if the request is for a host with a name that is not the server's, and the server has
/// no other way to tell a web page from a user: see [`crate::config::Http::hosts`].
fn check_host<B>(context: &Context, request: &Request<B>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() || host.is_none() && request.version() == Version::HTTP_11 {
        return Err(Problem::bad_request("a request has one header `Host`"));
    }
    let config = &context.app.config;
    if config.needs_credentials() {
        return Ok(());
    }
    let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let named = host.map(|host| host.as_bytes()).into_iter().chain(target);
    for host in named {
        let known = std::str::from_utf8(host).is_ok_and(|host| is_own_host(&config.http, host));
        if !known {
            let detail = "this is not a name of the server: see --allow-host";
            return Err(Problem::forbidden(detail));
        }
    }
    Ok(())
}

/// Whether the server has this name, which may have a port. A web page cannot choose an address as
/// its name, so addresses are fine where the server listens on more than the loopback interface.
pub fn is_own_host(options: &config::Http, host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|c| c.is_ascii_digit());
    let end = host.rfind(']').map_or(0, |end| end + 1);
    let name = match host[end..].rfind(':') {
        Some(colon) if is_port(&host[end + colon + 1..]) => &host[..end + colon],
        Some(_) => return false,
        None => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let is_public = !options.address.ip().to_canonical().is_loopback();
        return is_public || address.to_canonical().is_loopback();
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || options.hosts.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(name))
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
    let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let own = own.is_some_and(|(_, authority)| {
        headers.get(HOST).is_some_and(|host| host.as_bytes() == authority.as_bytes())
    });
    match own || cors::allowed(&context.app.config.http, headers).is_some() {
        true => Ok(()),
        false => {
            let detail = "web pages of this origin may not call the server: see --cors-origin";
            Err(Problem::forbidden(detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_local_server_are_names_of_this_machine() {
        let mut options = config::Http { hosts: vec!["db.internal".into()], ..Default::default() };
        for own in [
            "localhost",
            "LOCALHOST:7070",
            "localhost.:80",
            "127.0.0.1:7070",
            "127.9.9.9",
            "[::1]:7070",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
            "db.internal",
            "DB.internal:7070",
        ] {
            assert!(is_own_host(&options, own), "{own}");
        }
        for other in [
            "",
            "example.org",
            "example.org:7070",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "db.internal:x",
            "evil:80@localhost",
            "192.0.2.1",
            "[::2]:7070",
            "]",
            "]:",
            "::",
            "0.0.0.0",
        ] {
            assert!(!is_own_host(&options, other), "{other}");
        }
        options.address = "0.0.0.0:7070".parse().unwrap();
        assert!(is_own_host(&options, "192.0.2.1:7070"));
        assert!(!is_own_host(&options, "example.org"));
        options.hosts = vec!["*".into()];
        assert!(is_own_host(&options, "example.org"));
    }
}
