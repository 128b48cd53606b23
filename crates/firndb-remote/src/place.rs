//! Names of places: what `s3://bucket/prefix`, `https://host/folder` and directories are told
//! apart by.

use firndb::{Error, Result};
use std::path::PathBuf;

/// Where a catalog is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory of this machine.
    Directory(PathBuf),
    /// Objects of an S3 bucket whose names begin with the prefix (no slash at its ends, perhaps
    /// empty).
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix.
        prefix: String,
    },
    /// Files of a web server under this URL, which ends in a slash.
    Http(String),
}

impl Place {
    /// Reads a name: `s3://BUCKET/PREFIX`, `http://` or `https://`, or else the path of a
    /// directory. `InvalidArgument` if it has another scheme, or no bucket or host.
    pub fn parse(name: &str) -> Result<Place> {
        let wrong = |why: &str| Error::invalid(format!("`{name}` names no place: {why}"));
        let Some((scheme, rest)) = name.split_once("://") else {
            return Ok(Place::Directory(PathBuf::from(name)));
        };
        let rest = rest.trim_end_matches('/');
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let prefix = prefix.trim_matches('/');
                if bucket.is_empty() || prefix.split('/').any(|part| matches!(part, "." | "..")) {
                    return Err(wrong("write s3://BUCKET/PREFIX"));
                }
                Ok(Place::S3 { bucket: bucket.to_string(), prefix: prefix.to_string() })
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
            _ => Err(wrong("use a directory, s3://BUCKET/PREFIX, or http(s)://HOST/FOLDER")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let s3 = |bucket: &str, prefix: &str| Place::S3 {
            bucket: bucket.to_string(),
            prefix: prefix.to_string(),
        };
        let cases = [
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
        for name in ["s3://", "s3:///a", "s3://b/../c", "http://", "ftp://host/", "http://h/?a=1"] {
            let error = Place::parse(name).unwrap_err();
            assert_eq!(error.kind(), firndb::ErrorKind::InvalidArgument, "{name}");
            assert!(error.message().contains(name), "{error}");
        }
    }
}
