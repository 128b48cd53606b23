//! Converts errors of object stores into FirnDB errors: what failed, where, and what may help.

use firndb::{Error, ErrorKind, redact};
use object_store::Error as Store;
use std::path::Path;

/// The error of a call on `place`, such as `s3://bucket/prefix/object`.
pub(crate) fn of_store(error: Store, place: &str) -> Error {
    let text = root(&error);
    let (kind, message) = match &error {
        _ if text.contains("NoSuchBucket") => {
            (ErrorKind::NotFound, "there is no such bucket: make it, or name another".to_string())
        }
        Store::NotFound { .. } => (ErrorKind::NotFound, "there is no such object".to_string()),
        Store::AlreadyExists { .. } => {
            (ErrorKind::AlreadyExists, "there is such an object already".to_string())
        }
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            let message = format!(
                "the store refuses: look at the credentials (AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN) and at what they may do: {text}"
            );
            (ErrorKind::Io, message)
        }
        Store::NotImplemented { .. } | Store::NotSupported { .. } => {
            (ErrorKind::Io, format!("the store cannot do what a catalog needs: {text}"))
        }
        _ => (ErrorKind::Io, format!("{text}{}", advice(place, &text))),
    };
    Error::new(kind, message).in_file(Path::new(place))
}

/// A remedy for an error with this text.
fn advice(place: &str, text: &str) -> &'static str {
    if place.starts_with("hdfs:") {
        "; look at the network, at HADOOP_USER_NAME and HADOOP_CONF_DIR, then try again"
    } else if text.contains("169.254.") || text.contains("credential") {
        "; if this machine has no role of its own, set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY"
    } else if text.contains("URL scheme is not allowed") {
        "; set AWS_ALLOW_HTTP=true to go without encryption"
    } else {
        "; look at the network and at AWS_ENDPOINT_URL and AWS_REGION, then try again"
    }
}

/// Formats an error and its causes in one line, without repetitions and without credentials.
pub(crate) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    // Java servers append the location in their source code.
    let text = text.split("\n\tat ").next().unwrap_or_default();
    redact(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_contain_no_credentials() {
        let source = "no answer from http://user:secret@minio:9000/b?X-Amz-Signature=secret";
        let error = Store::Generic { store: "S3", source: source.into() };
        let text = of_store(error, "s3://b/a").to_string();
        assert!(text.contains("http://***@minio:9000/b") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn errors_name_the_location_and_a_remedy() {
        let source = |text: &str| -> Box<dyn std::error::Error + Send + Sync> { text.into() };
        let path = || "a".to_string();
        let generic = |text| Store::Generic { store: "S3", source: source(text) };
        let cases = [
            (
                Store::NotFound { path: path(), source: source("404") },
                ErrorKind::NotFound,
                "no such object",
            ),
            (
                Store::NotFound { path: path(), source: source("<Code>NoSuchBucket</Code>") },
                ErrorKind::NotFound,
                "no such bucket",
            ),
            (
                Store::AlreadyExists { path: path(), source: source("412") },
                ErrorKind::AlreadyExists,
                "already",
            ),
            (
                Store::PermissionDenied { path: path(), source: source("403") },
                ErrorKind::Io,
                "AWS_ACCESS_KEY_ID",
            ),
            (generic("URL scheme is not allowed"), ErrorKind::Io, "AWS_ALLOW_HTTP"),
            (generic("no answer from 169.254.169.254"), ErrorKind::Io, "no role"),
            (generic("connection\n  refused"), ErrorKind::Io, "connection refused; look at"),
        ];
        let java = "Permission denied: user=x\n\tat org.apache.X.y(X.java:1)\n\tat org.apache.Z";
        let error = of_store(generic(java), "hdfs://h:1/a");
        assert!(error.message().contains("user=x; look at the network, at HADOOP"), "{error}");
        for (error, kind, said) in cases {
            let error = of_store(error, "s3://b/a");
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.starts_with("s3://b/a: ") && text.contains(said), "{text}");
        }
    }
}
