//! Locations of catalogs: `s3://bucket/prefix`, `hdfs://host:port/folder`, `https://host/folder`,
//! and directories.

use firndb::{Error, Result, redact_url};
use std::fmt;
use std::path::PathBuf;

/// The location of a catalog.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A directory on this machine.
    Directory(PathBuf),
    /// Objects in an S3 bucket whose names begin with the prefix. The prefix may be empty, and has
    /// no slash at either end.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix.
        prefix: String,
    },
    /// Files of HDFS in the folder `/prefix`. The prefix may be empty, and has no slash at either
    /// end.
    Hdfs {
        /// The name node as `HOST:PORT`, or a name service of the Hadoop configuration.
        server: String,
        /// The folder.
        prefix: String,
    },
    /// Files of a web server below this URL, which ends in a slash. It may contain a user and a
    /// password, which are sent to the server and never displayed.
    Http(String),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(dir) => dir.fmt(f),
            Place::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Place::Hdfs { server, prefix } => write!(f, "hdfs://{server}/{prefix}"),
            Place::Http(url) => f.write_str(&redact_url(url)),
        }
    }
}

impl Place {
    /// Parses a location: `s3://BUCKET/PREFIX`, `hdfs://HOST:PORT/FOLDER`, `http://` or `https://`,
    /// or the path of a directory. `InvalidArgument` for another scheme, or if the bucket or host
    /// is missing.
    pub fn parse(name: &str) -> Result<Place> {
        let wrong =
            |why: &str| Error::invalid(format!("`{}` names no place: {why}", redact_url(name)));
        let Some((scheme, rest)) = name.split_once("://") else {
            return Ok(Place::Directory(PathBuf::from(name)));
        };
        let rest = rest.trim_end_matches('/');
        let is_http = scheme.to_ascii_lowercase().starts_with("http");
        // It would be parsed as part of the bucket or host.
        if !is_http && redact_url(name) != name {
            return Err(wrong(
                "leave the credentials out; they come from the environment (AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY, or HADOOP_USER_NAME)",
            ));
        }
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => {
                let (bucket, prefix) =
                    top_and_prefix(rest).ok_or_else(|| wrong("write s3://BUCKET/PREFIX"))?;
                Ok(Place::S3 { bucket, prefix })
            }
            "hdfs" => {
                let (server, prefix) =
                    top_and_prefix(rest).ok_or_else(|| wrong("write hdfs://HOST:PORT/FOLDER"))?;
                // The client would encode such characters.
                if object_store::path::Path::from(prefix.as_str()).as_ref() != prefix {
                    return Err(wrong("the folder has a character that no object store likes"));
                }
                Ok(Place::Hdfs { server, prefix })
            }
            "http" | "https" => {
                let url = reqwest::Url::parse(&format!("{name}/"));
                let url = url.map_err(|e| wrong(&e.to_string()))?;
                if url.query().is_some() || url.fragment().is_some() {
                    return Err(wrong("leave out what follows ? or #"));
                }
                let path = url.path().trim_end_matches('/').to_string();
                let mut url = url;
                url.set_path(&format!("{path}/"));
                Ok(Place::Http(url.to_string()))
            }
            _ => Err(wrong(
                "use a directory, s3://BUCKET/PREFIX, hdfs://HOST:PORT/FOLDER, or \
                 http(s)://HOST/FOLDER",
            )),
        }
    }
}

/// The part before the first slash, and the prefix after it; `None` if either is invalid.
fn top_and_prefix(rest: &str) -> Option<(String, String)> {
    let (top, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_matches('/');
    let is_good = !top.is_empty() && !prefix.split('/').any(|part| matches!(part, "." | ".."));
    is_good.then(|| (top.to_string(), prefix.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_locations() {
        let s3 = |bucket: &str, prefix: &str| Place::S3 {
            bucket: bucket.to_string(),
            prefix: prefix.to_string(),
        };
        let hdfs = |server: &str, prefix: &str| Place::Hdfs {
            server: server.to_string(),
            prefix: prefix.to_string(),
        };
        let cases = [
            ("hdfs://h:8020", hdfs("h:8020", "")),
            ("HDFS://service/user/me/", hdfs("service", "user/me")),
            ("s3://b", s3("b", "")),
            ("S3://b/", s3("b", "")),
            ("s3://b/a/c/", s3("b", "a/c")),
            ("http://host:8080", Place::Http("http://host:8080/".to_string())),
            ("https://host/a//", Place::Http("https://host/a/".to_string())),
            ("./a/b", Place::Directory("./a/b".into())),
            ("c:x", Place::Directory("c:x".into())),
        ];
        for (name, place) in cases {
            assert_eq!(Place::parse(name).unwrap(), place, "{name}");
        }
        let wrong = [
            "s3://",
            "s3:///a",
            "s3://b/../c",
            "http://",
            "ftp://host/",
            "http://h/?a=1",
            "hdfs:///a",
            "hdfs://h/./a",
            "hdfs://h/a//b",
            "hdfs://h/100%",
        ];
        for name in wrong {
            let error = Place::parse(name).unwrap_err();
            assert_eq!(error.kind(), firndb::ErrorKind::InvalidArgument, "{name}");
            assert!(error.message().contains(name), "{error}");
        }
        for name in [
            "s3://KEY:secret@bucket/a",
            "s3://KEY:sec/secret@bucket/a",
            "hdfs://secret@h:8020/a",
            "ftp://u:secret@host/",
            "http://u:secret@/a",
            "http://u:my secret@:x/",
            "https://h/a?token=secret",
        ] {
            let error = Place::parse(name).unwrap_err();
            assert_eq!(error.kind(), firndb::ErrorKind::InvalidArgument, "{name}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
