//! TLS: certificates of the server and of clients, and replacing them.

use crate::raw::{Raw, address, server, wait_until};
use crate::support::{Dir, TestServer};
use firndb_server::auth::Role;
use firndb_server::config::{Tls, TokenSource};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use reqwest::blocking::{Client, Response};
use std::fs;
use std::io::Read;
use std::path::PathBuf;

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate and its key in PEM.
    fn sign(&self, expired: bool) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_string(), "127.0.0.1".to_string()];
        let mut params = CertificateParams::new(names).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// Certificates of a server in files, and the authorities that have signed them.
pub struct Files {
    dir: Dir,
    server: Authority,
    clients: Authority,
}

impl Files {
    pub fn new() -> Files {
        let (server, clients) = (Authority::new("servers"), Authority::new("clients"));
        let files = Files { dir: Dir::new(), server, clients };
        files.write_server(&files.server);
        fs::write(files.path("clients.pem"), files.clients.certificate.pem()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write_server(&self, authority: &Authority) {
        let (certificate, key) = authority.sign(false);
        fs::write(self.path("server.pem"), certificate).unwrap();
        fs::write(self.path("server.key"), key).unwrap();
    }

    /// The options of a server with these certificates.
    pub fn options(&self, with_clients: bool) -> Tls {
        Tls {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_ca: with_clients.then(|| self.path("clients.pem")),
            client_role: None,
        }
    }
}

/// A client that trusts `root`, with a certificate if one is given.
fn client(root: &Authority, identity: Option<(String, String)>) -> Client {
    let root = reqwest::Certificate::from_pem(root.certificate.pem().as_bytes()).unwrap();
    let mut builder = Client::builder().no_proxy().use_rustls_tls();
    builder = builder.tls_built_in_root_certs(false).add_root_certificate(root);
    if let Some((certificate, key)) = identity {
        let pem = format!("{certificate}{key}");
        builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

fn get(client: &Client, server: &TestServer, path: &str) -> reqwest::Result<Response> {
    client.get(format!("https://{}{path}", address(server))).send()
}

#[test]
fn certificates_are_replaced_while_the_server_runs() {
    let files = Files::new();
    let server = server(|config| config.tls = Some(files.options(false)));
    let running = server.server.as_ref().unwrap();
    let old = || client(&files.server, None);
    assert_eq!(get(&old(), &server, "/v1/stores").unwrap().status(), 200);
    // Files that cannot be used change nothing: no PEM, and a key of another certificate.
    let good = fs::read(files.path("server.key")).unwrap();
    for bad in ["not a key", &KeyPair::generate().unwrap().serialize_pem()] {
        fs::write(files.path("server.key"), bad).unwrap();
        running.reload();
        assert_eq!(get(&old(), &server, "/v1/stores").unwrap().status(), 200, "{bad}");
    }
    fs::write(files.path("server.key"), good).unwrap();
    let other = Authority::new("other servers");
    assert!(get(&client(&other, None), &server, "/v1/stores").is_err());
    files.write_server(&other);
    running.reload();
    assert_eq!(get(&client(&other, None), &server, "/v1/stores").unwrap().status(), 200);
    assert!(get(&old(), &server, "/v1/stores").is_err());
}

#[test]
fn only_clients_with_a_certificate_of_the_right_authority_are_served() {
    let files = Files::new();
    let server = server(|config| config.tls = Some(files.options(true)));
    let serve = |identity| get(&client(&files.server, identity), &server, "/v1/stores");
    assert_eq!(serve(Some(files.clients.sign(false))).unwrap().status(), 200);
    assert!(serve(None).is_err(), "no certificate");
    assert!(serve(Some(Authority::new("clients").sign(false))).is_err(), "another authority");
    assert!(serve(Some(files.server.sign(false))).is_err(), "the authority of the server");
    assert!(serve(Some(files.clients.sign(true))).is_err(), "expired");
    let app = server.server.as_ref().unwrap().app();
    // A client may learn of it before the server has counted it.
    wait_until("all are counted", || app.metrics.handshakes_failed.get() == 4);
}

#[test]
fn a_certificate_has_a_role() {
    let files = Files::new();
    let token = "admin-0123456789abcdef";
    fs::write(files.path("tokens"), token).unwrap();
    // The role of the option, tokens, and the status of a write with the certificate alone.
    for (role, has_tokens, expected) in [
        (None, false, 204),
        (None, true, 403),
        (Some(Role::Write), true, 204),
        (Some(Role::Read), false, 403),
    ] {
        let server = server(|config| {
            config.tls = Some(Tls { client_role: role, ..files.options(true) });
            if has_tokens {
                let file = Some(files.path("tokens"));
                config.auth.tokens = vec![TokenSource { role: Role::Admin, file, env: None }];
            }
        });
        let client = client(&files.server, Some(files.clients.sign(false)));
        let url = format!("https://{}/v1/logs/log/keys/k", address(&server));
        let put = || client.put(&url).body("v");
        let case = format!("{role:?} {has_tokens}");
        assert_eq!(put().send().unwrap().status(), expected, "{case}");
        if has_tokens {
            assert_eq!(put().bearer_auth(token).send().unwrap().status(), 204, "{case}");
            let wrong = put().bearer_auth("wrong-0123456789abcdef");
            assert_eq!(wrong.send().unwrap().status(), 401, "{case}");
        }
    }
}

/// The start of a handshake with a version of TLS: 2 for 1.1, 3 for 1.2.
fn hello(version: u8) -> Vec<u8> {
    let mut hello = vec![3, version];
    hello.extend([7; 32]); // random bytes
    hello.push(0); // no session
    hello.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x13]); // a cipher suite of each version
    hello.extend([1, 0]); // no compression
    let curves = [0, 10, 0, 4, 0, 2, 0, 23];
    let points = [0, 11, 0, 2, 1, 0];
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extended_secret = [0, 23, 0, 0];
    let extensions = [&curves[..], &points, &signatures, &extended_secret].concat();
    hello.extend([0, extensions.len() as u8]);
    hello.extend(extensions);
    let mut message = vec![1, 0, 0, hello.len() as u8];
    message.extend(hello);
    let mut record = vec![22, 3, 1, 0, message.len() as u8];
    record.extend(message);
    record
}

#[test]
fn old_versions_of_tls_are_refused() {
    let files = Files::new();
    let server = server(|config| config.tls = Some(files.options(false)));
    let answer = |version| {
        let mut raw = Raw::send(address(&server), hello(version));
        let mut start = [0; 7];
        raw.0.read_exact(&mut start).unwrap();
        start
    };
    // A fatal alert about the version, and a message of the handshake.
    assert_eq!(answer(2), [21, 3, 3, 0, 2, 2, 70]);
    assert_eq!(answer(3)[..3], [22, 3, 3]);
    for version in [reqwest::tls::Version::TLS_1_2, reqwest::tls::Version::TLS_1_3] {
        let root = files.server.certificate.pem();
        let root = reqwest::Certificate::from_pem(root.as_bytes()).unwrap();
        let builder = Client::builder().no_proxy().use_rustls_tls().add_root_certificate(root);
        let client = builder.min_tls_version(version).max_tls_version(version).build().unwrap();
        assert_eq!(get(&client, &server, "/livez").unwrap().status(), 200, "{version:?}");
    }
}
