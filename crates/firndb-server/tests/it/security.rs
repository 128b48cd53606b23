//! Tokens and roles, hosts, origins.

use crate::raw::{Raw, address, request, server, status};
use crate::support::{Dir, TestServer};
use firndb_server::auth::Role;
use firndb_server::config::{Config, LogOptions, TokenSource};
use reqwest::Method;
use reqwest::blocking::RequestBuilder;
use std::fs;

const READ: &str = "read-0123456789abcdef";
const WRITE: &str = "write-0123456789abcdef";
const ADMIN: &str = "admin-0123456789abcdef";
const WRONG: &str = "wrong-0123456789abcdef";

/// A server whose tokens are in files of the directory.
fn protected(dir: &Dir) -> TestServer {
    let tokens = [(Role::Read, READ), (Role::Write, WRITE), (Role::Admin, ADMIN)];
    let sources = tokens.map(|(role, token)| {
        let file = dir.path().join(role.name());
        fs::write(&file, format!("# A comment.\n\n  {token}  \n")).unwrap();
        TokenSource { role, file: Some(file), env: None }
    });
    server(|config| config.auth.tokens = sources.to_vec())
}

/// Method, path and the role that is needed; `None` for everyone. Requests for administration have
/// bodies that are refused.
const ROUTES: [(&str, &str, Option<Role>); 37] = [
    ("GET", "/livez", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", Some(Role::Read)),
    ("GET", "/openapi.json", Some(Role::Read)),
    ("GET", "/v1/stores", Some(Role::Read)),
    ("POST", "/v1/stores", Some(Role::Admin)),
    ("GET", "/v1/logs/log", Some(Role::Read)),
    ("GET", "/v1/tables/log", Some(Role::Read)),
    ("GET", "/v1/collections/log", Some(Role::Read)),
    ("GET", "/v1/catalogs", Some(Role::Read)),
    ("GET", "/v1/catalogs/log", Some(Role::Read)),
    ("GET", "/v1/logs/log/keys/k", Some(Role::Read)),
    ("HEAD", "/v1/logs/log/keys/k", Some(Role::Read)),
    ("PUT", "/v1/logs/log/keys/k", Some(Role::Write)),
    ("DELETE", "/v1/logs/log/keys/k", Some(Role::Write)),
    ("GET", "/v1/tables/log/keys/k", Some(Role::Read)),
    ("POST", "/v1/logs/log:mget", Some(Role::Read)),
    ("POST", "/v1/tables/log:mget", Some(Role::Read)),
    ("POST", "/v1/logs/log:mput", Some(Role::Write)),
    ("GET", "/v1/logs/log:scan", Some(Role::Read)),
    ("POST", "/v1/logs/log:scan", Some(Role::Read)),
    ("POST", "/v1/tables/log:scan", Some(Role::Read)),
    ("POST", "/v1/collections/log:search", Some(Role::Read)),
    ("POST", "/v1/collections/log:count", Some(Role::Read)),
    ("POST", "/v1/collections/log:facets", Some(Role::Read)),
    ("POST", "/v1/collections/log:group", Some(Role::Read)),
    ("POST", "/v1/collections/log:explain", Some(Role::Read)),
    ("POST", "/v1/logs/log:backup", Some(Role::Admin)),
    ("POST", "/v1/logs/log:compact", Some(Role::Admin)),
    ("POST", "/v1/logs/log:verify", Some(Role::Admin)),
    ("POST", "/v1/collections/log:compact", Some(Role::Admin)),
    ("POST", "/v1/collections/log:verify", Some(Role::Admin)),
    ("POST", "/v1/tables/log:verify", Some(Role::Admin)),
    ("GET", "/v1/no/such/path", Some(Role::Read)),
    ("GET", "/", Some(Role::Read)),
    ("DELETE", "/v1/tables/log", Some(Role::Admin)),
    ("DELETE", "/v1/collections/log", Some(Role::Admin)),
];

#[test]
fn every_route_has_its_role() {
    let dir = Dir::new();
    let server = protected(&dir);
    let tokens = [
        (None, None),
        (Some(WRONG), None),
        (Some(READ), Some(Role::Read)),
        (Some(WRITE), Some(Role::Write)),
        (Some(ADMIN), Some(Role::Admin)),
    ];
    for (method, path, required) in ROUTES {
        for (token, role) in tokens {
            let method: Method = method.parse().unwrap();
            let request = server.client.request(method.clone(), server.url(path)).body("{\"x\":1}");
            let request = match token {
                Some(token) => request.bearer_auth(token),
                None => request,
            };
            let response = request.send().unwrap();
            let status = response.status().as_u16();
            let case = format!("{method} {path} {token:?}: {status}");
            match (role, required) {
                (_, None) => assert_eq!(status, 200, "{case}"),
                (None, Some(_)) => {
                    assert_eq!(status, 401, "{case}");
                    assert_eq!(response.headers()["www-authenticate"], "Bearer", "{case}");
                    assert!(!response.text().unwrap().contains("0123456789"), "{case}");
                }
                (Some(role), Some(required)) if role < required => {
                    assert_eq!(status, 403, "{case}");
                }
                _ => assert!(![401, 403].contains(&status) && status < 500, "{case}"),
            }
        }
    }
}

#[test]
fn other_forms_of_credentials_are_refused() {
    let dir = Dir::new();
    let server = protected(&dir);
    let status = |value: &str| {
        let request = server.client.get(server.url("/v1/stores")).header("authorization", value);
        request.send().unwrap().status().as_u16()
    };
    for good in [format!("Bearer {READ}"), format!("bEARER   {READ} ")] {
        assert_eq!(status(&good), 200, "{good}");
    }
    for bad in ["", "Bearer", "Bearer ", READ, "Basic cmVhZDo=", &format!("Bearer {READ}x")] {
        assert_eq!(status(bad), 401, "{bad}");
    }
    // A token in the URL would be in logs.
    let url = server.url(&format!("/v1/stores?token={READ}"));
    assert_eq!(server.client.get(url).send().unwrap().status(), 401);
}

#[test]
fn tokens_are_replaced_while_the_server_runs() {
    let dir = Dir::new();
    let server = protected(&dir);
    let status = |token: &str| {
        let request = server.client.get(server.url("/v1/stores")).bearer_auth(token);
        request.send().unwrap().status().as_u16()
    };
    let reload = || server.server.as_ref().unwrap().reload();
    let file = dir.path().join("read");
    let newer = "newer-0123456789abcdef";
    fs::write(&file, newer).unwrap();
    assert_eq!([status(READ), status(newer)], [200, 401], "before the signal");
    reload();
    assert_eq!([status(READ), status(newer)], [401, 200]);
    for broken in ["", "# Only a comment.\n", "short", &format!("{READ}\nshort\n")] {
        fs::write(&file, broken).unwrap();
        reload();
        assert_eq!([status(READ), status(newer), status(ADMIN)], [401, 200, 200], "{broken:?}");
    }
    fs::remove_file(&file).unwrap();
    reload();
    assert_eq!([status(READ), status(newer)], [401, 200]);
}

#[test]
fn addresses_that_others_reach_need_credentials() {
    let check = |address: &str, change: fn(&mut Config)| {
        let mut config = Config::default();
        let options = LogOptions { path: "log".into(), ..LogOptions::default() };
        config.logs.insert("log".to_string(), options);
        config.http.address = address.parse().unwrap();
        change(&mut config);
        config.check().map_err(|error| error.to_string())
    };
    for local in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(check(local, |_| ()), Ok(()), "{local}");
    }
    for open in [
        "0.0.0.0:1",
        "[::]:1",
        "[::ffff:0.0.0.0]:1",
        "[::ffff:192.0.2.1]:1",
        "192.0.2.1:1",
        "[2001:db8::1]:1",
    ] {
        assert!(check(open, |_| ()).unwrap_err().contains("--insecure"), "{open}");
        assert_eq!(check(open, |config| config.auth.insecure = true), Ok(()), "{open}");
        let with_token = |config: &mut Config| {
            let env = Some("X".to_string());
            config.auth.tokens = vec![TokenSource { role: Role::Read, file: None, env }];
        };
        assert_eq!(check(open, with_token), Ok(()), "{open}");
        // A certificate of the server alone does not say who may connect.
        let with_tls = |config: &mut Config| {
            let (certificate, key) = ("c".into(), "k".into());
            let (client_ca, client_role) = (None, None);
            config.tls =
                Some(firndb_server::config::Tls { certificate, key, client_ca, client_role });
        };
        assert!(check(open, with_tls).is_err(), "{open}");
        let with_clients = |config: &mut Config| {
            let (certificate, key) = ("c".into(), "k".into());
            let (client_ca, client_role) = (Some("ca".into()), None);
            config.tls =
                Some(firndb_server::config::Tls { certificate, key, client_ca, client_role });
        };
        assert_eq!(check(open, with_clients), Ok(()), "{open}");
    }
}

#[test]
fn a_name_that_is_not_the_servers_is_refused() {
    let open = server(|config| config.http.hosts = vec!["db.internal".to_string()]);
    let get = |server: &TestServer, target: &str, host: &str, version: &str| {
        let head = format!("GET {target} HTTP/{version}\r\n{host}\r\n");
        status(&Raw::send(address(server), head).head())
    };
    for (target, host, expected) in [
        ("/v1/stores", "host: localhost\r\n", 200),
        ("/v1/stores", "host: 127.0.0.1:80\r\n", 200),
        ("/v1/stores", "host: db.internal:80\r\n", 200),
        ("/v1/stores", "host: rebound.example.org\r\n", 403),
        ("/no/such/path", "host: rebound.example.org\r\n", 403),
        ("/v1/stores", "host: localhost\r\nhost: localhost\r\n", 400),
        ("/v1/stores", "", 400),
        ("http://localhost/v1/stores", "host: localhost\r\n", 200),
        ("http://rebound.example.org/v1/stores", "host: localhost\r\n", 403),
        // Probes of a system that starts the server use other names, and learn nothing.
        ("/readyz", "host: rebound.example.org\r\n", 200),
    ] {
        assert_eq!(get(&open, target, host, "1.1"), expected, "{target} {host:?}");
    }
    assert_eq!(get(&open, "/v1/stores", "", "1.0"), 200);
    // A page of another origin does not have the token, whatever the name is.
    let dir = Dir::new();
    let protected = protected(&dir);
    let host = format!("host: example.org\r\nauthorization: Bearer {READ}\r\n");
    assert_eq!(get(&protected, "/v1/stores", &host, "1.1"), 200);
}

/// A request of a page, and its response's status and headers of CORS.
fn from_page(request: RequestBuilder, origin: &str) -> (u16, Option<String>) {
    let response = request.header("origin", origin).send().unwrap();
    let allowed = response.headers().get("access-control-allow-origin");
    (response.status().as_u16(), allowed.map(|value| value.to_str().unwrap().to_string()))
}

#[test]
fn pages_of_other_origins_are_refused() {
    let server = server(|_| ());
    let get = || server.client.get(server.url("/v1/stores"));
    assert_eq!(get().send().unwrap().status(), 200);
    assert_eq!(from_page(get(), &server.url("")), (200, None));
    for origin in ["https://example.org", "null", "http://localhost:1", ""] {
        assert_eq!(from_page(get(), origin), (403, None), "{origin}");
        let write = server.client.post(server.url("/v1/stores")).body("{}");
        assert_eq!(from_page(write, origin), (403, None), "{origin}");
        let preflight = server.client.request(Method::OPTIONS, server.url("/v1/stores"));
        let preflight = preflight.header("access-control-request-method", "POST");
        assert_eq!(from_page(preflight, origin), (403, None), "{origin}");
    }
}

#[test]
fn pages_of_configured_origins_are_allowed() {
    let dir = Dir::new();
    let file = dir.path().join("tokens");
    fs::write(&file, ADMIN).unwrap();
    let page = "https://app.example.org";
    for (origins, allowed) in [(vec![page], page), (vec!["*"], "*")] {
        let server = server(|config| {
            config.http.cors_origins = origins.iter().map(ToString::to_string).collect();
            let file = Some(file.clone());
            config.auth.tokens = vec![TokenSource { role: Role::Admin, file, env: None }];
        });
        let url = server.url("/v1/logs/log/keys/k");
        let preflight = server.client.request(Method::OPTIONS, &url);
        let preflight = preflight.header("access-control-request-method", "PUT");
        let preflight = preflight.header("origin", page).send().unwrap();
        assert_eq!(preflight.status(), 204);
        let header = |name: &str| preflight.headers()[name].to_str().unwrap().to_string();
        assert_eq!(header("access-control-allow-origin"), allowed);
        assert!(header("access-control-allow-methods").contains("PUT"));
        assert!(header("access-control-allow-headers").contains("authorization"));
        assert_eq!(preflight.headers().contains_key("vary"), allowed != "*");
        // The request itself needs the token, and a page sees responses and problems.
        let put = || server.client.put(&url).body("v");
        let shown = Some(allowed.to_string());
        assert_eq!(from_page(put(), page), (401, shown.clone()));
        assert_eq!(from_page(put().bearer_auth(ADMIN), page), (204, shown.clone()));
        let absent = server.client.get(server.url("/none")).bearer_auth(ADMIN);
        assert_eq!(from_page(absent, page), (404, shown));
        let other = from_page(put().bearer_auth(ADMIN), "https://evil.example.org");
        assert_eq!(other, if allowed == "*" { (204, Some("*".into())) } else { (403, None) });
    }
}

#[test]
fn options_outside_of_cors_are_a_method_like_others() {
    let server = server(|config| config.http.cors_origins = vec!["*".to_string()]);
    let options = Raw::send(address(&server), request("OPTIONS", "/v1/logs/log/keys/k")).head();
    assert_eq!(status(&options), 405, "{options}");
}

#[test]
fn origins_are_checked_when_the_server_starts() {
    let check = |origin: &str| {
        let mut config = Config::default();
        let options = LogOptions { path: "log".into(), ..LogOptions::default() };
        config.logs.insert("log".to_string(), options);
        config.http.cors_origins = vec![origin.to_string()];
        config.check().is_ok()
    };
    for good in ["*", "https://example.org", "http://localhost:3000", "chrome-extension://abc"] {
        assert!(check(good), "{good}");
    }
    for bad in ["", "example.org", "https://", "https://example.org/", "https://*.example.org"] {
        assert!(!check(bad), "{bad}");
    }
}
