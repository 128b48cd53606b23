//! A real HDFS: Hadoop's MiniDFSCluster, a name node and a data node in one process, fetched by
//! Maven. It needs Java, Maven, 90 MB and 30 seconds, so its tests run only if `FIRNDB_HDFS` is
//! set. Otherwise they say so and are counted as skipped.

use firndb_testing::skipped;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

const HADOOP: &str = "3.4.1";

/// A new, empty cluster. Dropping this stops it.
pub struct MiniDfs {
    child: Child,
    dir: PathBuf,
    /// The address of the name node.
    pub server: String,
}

impl MiniDfs {
    /// The cluster shared by the tests of this process, one at a time. `None`, with a message, if
    /// `FIRNDB_HDFS` is not set. Panics if it is set and Maven is missing.
    pub fn shared(test: &str) -> Option<Arc<MiniDfs>> {
        static SHARED: Mutex<Weak<MiniDfs>> = Mutex::new(Weak::new());
        if std::env::var_os("FIRNDB_HDFS").is_none() {
            skipped(test, "set FIRNDB_HDFS=1 to run it against HDFS (needs Java and Maven)");
            return None;
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return Some(cluster);
        }
        let cluster = install().and_then(|jars| MiniDfs::start(&jars));
        let cluster = Arc::new(cluster.unwrap_or_else(|why| panic!("no HDFS: {why}")));
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    fn start(jars: &Path) -> Result<MiniDfs, String> {
        let dir = jars.with_file_name(format!("run-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let (details, log) = (dir.join("details.json"), dir.join("log"));
        let output = File::create(&log).map_err(|e| e.to_string())?;
        let mut command = Command::new("java");
        command.arg("-Xmx512m").arg("-cp").arg(jars.join("*"));
        command.args(["org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1"]);
        command.arg("-format").arg("-writeDetails").arg(&details).arg("-D");
        command.arg(format!("hdfs.minidfs.basedir={}", dir.join("data").display()));
        let errors = output.try_clone().map_err(|e| e.to_string())?;
        command.current_dir(&dir).stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(|e| format!("java cannot be started: {e}"))?;
        let mut cluster = MiniDfs { child, dir, server: String::new() };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(300) {
            let told = fs::read_to_string(&details).unwrap_or_default();
            let port = told.split("\"namenode_port\":").nth(1);
            if let Some((port, _)) = port.and_then(|text| text.split_once(['}', ','])) {
                cluster.server = format!("127.0.0.1:{}", port.trim());
                return Ok(cluster);
            }
            if cluster.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        Err(format!("the cluster does not come up: {log}"))
    }
}

impl Drop for MiniDfs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The folder of Hadoop's jars, which Maven fetches if they are missing.
fn install() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("there is no target")?;
    let place = target.join(format!("hadoop-{HADOOP}"));
    let (jars, stamp) = (place.join("jars"), place.join("installed"));
    fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    // Another test process may be installing it concurrently.
    let lock = File::create(place.join("lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    if stamp.exists() {
        return Ok(jars);
    }
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>firndb</groupId>\
         <artifactId>hadoop</artifactId><version>1</version><packaging>pom</packaging>\
         <dependencies><dependency><groupId>org.apache.hadoop</groupId>\
         <artifactId>hadoop-client-minicluster</artifactId><version>{HADOOP}</version>\
         </dependency></dependencies></project>"
    );
    fs::write(place.join("pom.xml"), project).map_err(|e| e.to_string())?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies"]).current_dir(&place);
    maven.arg(format!("-DoutputDirectory={}", jars.display()));
    let output = maven.output().map_err(|e| format!("mvn cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("mvn: {}", String::from_utf8_lossy(&output.stdout)));
    }
    fs::write(stamp, HADOOP).map_err(|e| e.to_string())?;
    Ok(jars)
}
