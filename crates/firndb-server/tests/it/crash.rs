//! The process is killed while clients write.

use crate::process::Process;
use firndb::log::LogStore;
use rustix::process::Signal;
use serde_json::json;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Writes one key after the other by PUT, until the server has gone. Returns how many writes were
/// acknowledged.
fn put(address: SocketAddr, client: usize) -> usize {
    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let mut count = 0;
    loop {
        let url = format!("http://{address}/v1/logs/log/keys/put-{client}-{count}");
        match http.put(url).body(count.to_string()).send() {
            Ok(response) if response.status() == 204 => count += 1,
            Ok(response) => panic!("{response:?}"),
            Err(_) => return count,
        }
    }
}

/// Writes pairs of keys as batches.
fn mput(address: SocketAddr) -> usize {
    let http = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{address}/v1/logs/log:mput");
    let mut count = 0;
    loop {
        let value = count.to_string();
        let pair =
            ["a", "b"].map(|half| json!({ "key": format!("{half}{count}"), "value": value }));
        match http.post(&url).json(&json!({ "put": pair })).send() {
            Ok(response) if response.status() == 204 => count += 1,
            Ok(response) => panic!("{response:?}"),
            Err(_) => return count,
        }
    }
}

/// Writes pipelines of ten keys over the Redis protocol.
fn pipelines(address: SocketAddr) -> usize {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut count = 0;
    loop {
        let mut pipe = redis::pipe();
        for n in count..count + 10 {
            pipe.set(format!("redis-{n}"), n);
        }
        match pipe.query::<Vec<String>>(&mut connection) {
            Ok(replies) => {
                assert!(replies.iter().all(|reply| reply == "OK"), "{replies:?}");
                count += 10;
            }
            Err(_) => return count,
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_the_process_is_killed() {
    let process = Process::start(&["--redis", "127.0.0.1:0"]);
    let address = process.wait_until_ready();
    let redis_address = process.address_for("Redis");
    let puts: Vec<JoinHandle<usize>> =
        (0..2).map(|client| thread::spawn(move || put(address, client))).collect();
    let batches = thread::spawn(move || mput(address));
    let pipelines = thread::spawn(move || pipelines(redis_address));
    thread::sleep(Duration::from_millis(500));
    process.signal(Signal::KILL);
    let puts: Vec<usize> = puts.into_iter().map(|thread| thread.join().unwrap()).collect();
    let (batches, pipelines) = (batches.join().unwrap(), pipelines.join().unwrap());
    assert!(puts.iter().all(|count| *count > 10) && batches > 10 && pipelines > 10);
    let path = process.dir.path().join("log");
    process.end_keeping(|_| {
        let store = LogStore::open(&path).unwrap();
        let get = |key: String| {
            store.get(&key).unwrap().map(|value| String::from_utf8(value).unwrap().parse().unwrap())
        };
        for (client, count) in puts.iter().enumerate() {
            (0..*count).for_each(|n| assert_eq!(get(format!("put-{client}-{n}")), Some(n)));
        }
        (0..pipelines).for_each(|n| assert_eq!(get(format!("redis-{n}")), Some(n)));
        (0..batches).for_each(|n| assert_eq!(get(format!("a{n}")), Some(n)));
        // Of the batch that was not acknowledged both keys are there, or none.
        (0..=batches).for_each(|n| assert_eq!(get(format!("a{n}")), get(format!("b{n}"))));
        store.close().unwrap();
    });
}
