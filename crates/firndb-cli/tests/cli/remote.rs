//! Remote catalogs on the command line.

#[cfg(feature = "hdfs")]
#[path = "../../../firndb-remote/tests/it/minidfs.rs"]
mod minidfs;
#[path = "../../../firndb-remote/tests/it/moto.rs"]
mod moto;

use super::{Run, Sandbox};
#[cfg(feature = "hdfs")]
use minidfs::MiniDfs;
use moto::Moto;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A collection, the rows of a table, and an index.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("docs.csv", "id,city\n1,Oslo\n2,Bergen\n");
    sandbox.write("words.csv", "key,value\none,1\ntwo,2\n");
    sandbox.firn("search build docs.csv -o docs --partition-by city").ok();
    sandbox
}

#[test]
fn every_command_supports_an_object_store() {
    let Some(moto) = Moto::shared("every_command_supports_an_object_store") else { return };
    moto.bucket("cli");
    let variables = moto::variables(moto.port);
    every_command_supports("s3://cli/some/prefix", &variables);
    let missing = "catalog publish s3://no-such-bucket docs docs";
    sandbox().firn_in(&variables, missing, b"").fails(3, "no such bucket");
}

#[cfg(feature = "hdfs")]
#[test]
fn every_command_supports_hdfs() {
    let Some(hdfs) = MiniDfs::shared("every_command_supports_hdfs") else { return };
    every_command_supports(&format!("hdfs://{}/some/folder", hdfs.server), &[]);
}

fn every_command_supports(catalog: &str, variables: &[(String, String)]) {
    let sandbox = sandbox();
    let firn =
        |line: &str| -> Run { sandbox.firn_in(variables, &line.replace("CATALOG", catalog), b"") };
    let first = firn("catalog publish CATALOG docs docs --json").ok().json();
    assert_eq!((&first[0]["version"], &first[0]["files"]), (&json!(1), &first[0]["sent_files"]));
    firn("catalog publish CATALOG docs docs").ok();
    firn("catalog rollback CATALOG docs 1").ok();
    firn("catalog pin CATALOG docs 1 --note first").ok();
    firn("catalog pin CATALOG docs 1").fails(4, "pinned already");
    assert_eq!(
        firn("catalog gc CATALOG --keep 1 --grace 0s --json").ok().json()[0]["versions"],
        json!([2])
    );
    assert!(firn("catalog diff CATALOG docs 1 3").ok().out.contains("0 files changed"));
    assert!(firn("catalog ls CATALOG").ok().out.contains("collection"));
    assert_eq!(firn("catalog ls CATALOG docs --json").ok().json().len(), 2);
    assert_eq!(firn("catalog show CATALOG docs --json").ok().json()[0]["restores"], 1);
    firn("catalog verify CATALOG docs").ok();
    firn("catalog watch CATALOG docs -o cache --versions 1").ok();
    firn("catalog pull CATALOG docs -o copy").ok();
    assert_eq!(
        sandbox.firn("search count copy").ok().out,
        sandbox.firn("search count docs").ok().out
    );

    let built = "table build -i words.csv --key key -o words.table --publish CATALOG words";
    assert!(firn(built).ok().out.contains("words: version 1, published"));
    let schema = sandbox.firn("search build docs.csv --infer").ok().out;
    sandbox.write("schema.toml", schema);
    sandbox.firn("index init feeds --schema schema.toml --partitions 2").ok();
    let applied = "index apply feeds all docs.csv --key id --publish CATALOG feeds --json";
    assert_eq!(firn(applied).ok().json()[0]["published"]["catalog_version"], 1);
    let names = firn("catalog ls CATALOG --json").ok().json();
    let names: Vec<_> = names.iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names, ["docs", "feeds", "words"]);

    firn("catalog show CATALOG nothing").fails(3, "nothing is published");
}

/// A `firn catalog watch` that serves its files, the URL, and its other output; killed when
/// dropped.
struct Serving {
    child: Child,
    url: String,
    _stderr: BufReader<ChildStderr>,
}

impl Serving {
    fn start(sandbox: &Sandbox, line: &str) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.args(line.split(' ')).current_dir(&sandbox.0);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        let url = said.trim().strip_prefix("firn: serving ").unwrap_or_else(|| panic!("{said}"));
        Serving { child, url: url.to_string(), _stderr: stderr }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_reader_serves_its_files() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish c docs docs").ok();
    let serving = Serving::start(&sandbox, "catalog watch c docs -o cache --serve 127.0.0.1:0");
    let far = |line: &str| sandbox.firn(&line.replace("CATALOG", &serving.url));
    // It serves before it has the version.
    let start = Instant::now();
    while far("catalog ls CATALOG --json").ok().json().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    let shown = far("catalog show CATALOG docs --json").ok().out;
    assert_eq!(shown, sandbox.firn("catalog show c docs --json").ok().out);
    far("catalog verify CATALOG docs").ok();
    far("catalog watch CATALOG docs -o other --versions 1").ok();
    far("catalog pull CATALOG docs -o copy").ok();
    sandbox.firn("verify copy").ok();
    far("catalog publish CATALOG docs docs").fails(2, "can only be read");

    // The peer has the files; of the catalog only the manifest is left.
    std::fs::remove_dir_all(sandbox.path("c/docs/files")).unwrap();
    sandbox.firn("catalog pull c docs -o without").fails(3, "files/");
    far("catalog pull c docs -o with --peer http://127.0.0.1:9 --peer CATALOG").ok();
    sandbox.firn("verify with").ok();
    far("catalog watch c docs -o third --versions 1 --serve 127.0.0.1:0 --peer CATALOG").ok();
    sandbox.firn("catalog watch c docs -o x --serve nowhere").fails(8, "HOST:PORT");
    sandbox.firn("catalog pull c docs -o x --peer nowhere").fails(2, "no URL of a peer");
}

#[test]
fn invalid_locations_are_refused() {
    let sandbox = sandbox();
    sandbox.firn("catalog ls ftp://host/a").fails(2, "names no place");
    sandbox.firn("catalog ls s3://").fails(2, "s3://BUCKET/PREFIX");
    sandbox.firn("catalog ls hdfs://").fails(2, "hdfs://HOST:PORT/FOLDER");
    let hdfs = sandbox.firn("catalog ls hdfs://127.0.0.1:9/a");
    match cfg!(feature = "hdfs") {
        true => hdfs.fails(8, "Connection refused"),
        false => hdfs.fails(2, "built without HDFS"),
    };
    sandbox.firn("catalog publish http://127.0.0.1:9/ docs docs").fails(8, "no answer");
}

/// Every argument that takes a URL, or that a user may give one by mistake.
const LINES_WITH_URL: [&str; 23] = [
    "catalog ls URL",
    "catalog ls URL docs",
    "catalog show URL docs",
    "catalog diff URL docs 1 2",
    "catalog publish URL docs docs",
    "catalog rollback URL docs 1",
    "catalog pin URL docs 1",
    "catalog gc URL",
    "catalog pull URL docs -o out",
    "catalog verify URL docs",
    "catalog watch URL docs -o cache --versions 1",
    "catalog ls c docs URL",
    "catalog URL",
    "catalog show c URL",
    "catalog pull c docs -o out --version URL",
    "catalog watch c docs -o cache --versions 1 --serve URL",
    "table build -i words.csv --key key -o w.table --force --publish URL words",
    "index apply feeds all docs.csv --key id --publish URL feeds",
    "index status URL",
    "inspect URL",
    "verify URL",
    "search query URL",
    "URL",
];

/// A server that refuses every request, until the program ends.
fn refusing_server() -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    port
}

/// Runs every command with this URL in every argument, and returns how often it failed.
fn run_all(sandbox: &Sandbox, url: &str) -> u32 {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_ENDPOINT_URL", "http://user:secret@127.0.0.1:9"),
    ];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let mut failed = 0;
    for line in LINES_WITH_URL {
        for json in ["", " --json"] {
            let line = format!("{}{json}", line.replace("URL", url));
            let run = sandbox.firn_in(&variables, &line, b"");
            failed += u32::from(run.code != 0);
            let said = format!("{}{}", run.out, run.err);
            assert!(!said.contains("secret"), "{line}: {said}");
        }
    }
    failed
}

/// Credentials in URLs are never printed, whatever the command and its result.
#[test]
fn credentials_in_urls_are_never_printed() {
    let sandbox = sandbox();
    let label = "--label source=https://user:secret@ci/job?id=7&token=secret";
    sandbox.firn(&format!("catalog publish c docs docs {label}")).ok();
    let schema = sandbox.firn("search build docs.csv --infer").ok().out;
    sandbox.write("schema.toml", schema);
    sandbox.firn("index init feeds --schema schema.toml --partitions 2").ok();
    let shown = "https://***@ci/job?id=7&token=***";
    for line in ["catalog show c docs", "catalog show c docs --json", "catalog ls c docs --json"] {
        assert!(sandbox.firn(line).ok().out.contains(shown), "{line}");
    }
    let port = refusing_server();
    let urls = [
        format!("http://user:secret@127.0.0.1:{port}/a"),
        format!("http://user:secret@127.0.0.1:{port}/a?X-Amz-Signature=secret"),
        format!("http://user:sec/secret@127.0.0.1:{port}/"),
        "s3://KEY:secret@bucket/prefix".to_string(),
        "s3://KEY:sec/secret@bucket/prefix".to_string(),
        "s3://bucket/prefix?X-Amz-Security-Token=secret".to_string(),
        "hdfs://user:secret@127.0.0.1:9/a".to_string(),
        "ftp://user:secret@host/a".to_string(),
    ];
    let failed: u32 = std::thread::scope(|scope| {
        let sandbox = &sandbox;
        let run = |url: &'_ String| run_all(sandbox, url);
        let runs: Vec<_> = urls.iter().map(|url| scope.spawn(move || run(url))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert!(failed > 300, "{failed} failures prove little");
}

/// Peers with credentials in their URLs fail, and the catalog does not; the URLs are not printed.
#[test]
fn credentials_of_peers_are_never_printed() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish c docs docs").ok();
    for (n, url) in
        ["http://user:secret@127.0.0.1:9", "https://secret@127.0.0.1:9/a"].iter().enumerate()
    {
        let run = sandbox.firn(&format!("catalog pull c docs -o out{n} --peer {url}")).ok();
        assert!(!format!("{}{}", run.out, run.err).contains("secret"));
        let line = format!("catalog watch c docs -o cache{n} --versions 1 --json --peer {url}");
        let run = sandbox.firn(&line).ok();
        assert!(!format!("{}{}", run.out, run.err).contains("secret"));
    }
    for url in
        ["s3://K:secret@b/a", "ftp://u:secret@h", "http://u:secret@:9", "http://h/?sig=secret"]
    {
        let run = sandbox.firn(&format!("catalog pull c docs -o out --peer {url}"));
        let run = run.fails(2, "://");
        assert!(!format!("{}{}", run.out, run.err).contains("secret"), "{}", run.err);
    }
}
