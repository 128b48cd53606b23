//! The description of the interface, for programs.

use super::problem::Problem;
use super::reply::{Reply, full, with_type};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

/// OpenAPI 3.1.
pub const DOCUMENT: &str = include_str!("openapi.json");

/// The document.
pub fn show(request: &Request<Incoming>) -> Reply {
    match *request.method() {
        Method::GET | Method::HEAD => {
            Ok(with_type(full(StatusCode::OK, DOCUMENT), "application/json"))
        }
        _ => Err(Problem::method("GET, HEAD")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Route, Verb, required_role};
    use super::*;
    use crate::auth::Role;
    use crate::stores::Kind;
    use serde_json::Value as Json;
    use std::collections::BTreeSet;

    /// The methods of a route, with the roles that they need.
    fn methods(route: &Route<'_>) -> &'static [&'static str] {
        match route {
            Route::Key { kind: Kind::Log, .. } => &["get", "head", "put", "delete"],
            Route::Key { .. } => &["get", "head"],
            Route::Verb { verb: Verb::Scan, .. } => &["get", "post"],
            Route::Verb { .. } => &["post"],
            Route::Stores => &["get", "post"],
            Route::Store { .. } => &["get", "delete"],
            _ => &["get"],
        }
    }

    #[test]
    fn all_routes_are_described_with_their_roles() {
        let document: Json = serde_json::from_str(DOCUMENT).unwrap();
        let paths = document["paths"].as_object().unwrap();
        for (path, operations) in paths {
            let example = path.replace("{store}", "name").replace("{key}", "key");
            let route = Route::parse(&example).unwrap_or_else(|_| panic!("{path} has no route"));
            let described: BTreeSet<&str> =
                operations.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(described, methods(&route).iter().copied().collect(), "{path}");
            for (method, operation) in operations.as_object().unwrap() {
                let method: Method = method.to_uppercase().parse().unwrap();
                let role = required_role(&route, &method).map_or("none", Role::name);
                assert_eq!(operation["x-role"], role, "{method} {path}");
            }
        }
        let described = |path: String| assert!(paths.contains_key(&path), "{path} is missing");
        for kind in [Kind::Log, Kind::Table, Kind::Collection] {
            described(format!("/v1/{}/{{store}}", kind.path()));
            if kind != Kind::Collection {
                described(format!("/v1/{}/{{store}}/keys/{{key}}", kind.path()));
            }
            for verb in Verb::all().filter(|verb| verb.fits(kind)) {
                described(format!("/v1/{}/{{store}}:{}", kind.path(), verb.name()));
            }
        }
        for path in ["/livez", "/readyz", "/metrics", "/openapi.json", "/v1/stores"] {
            described(path.to_string());
        }
        for path in ["/v1/catalogs", "/v1/catalogs/{store}"] {
            described(path.to_string());
        }
    }

    #[test]
    fn references_have_targets() {
        let document: Json = serde_json::from_str(DOCUMENT).unwrap();
        let mut references = 0;
        let mut rest = vec![&document];
        while let Some(value) = rest.pop() {
            match value {
                Json::Object(object) => {
                    if let Some(Json::String(target)) = object.get("$ref") {
                        let pointer = target.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{target}");
                        references += 1;
                    }
                    rest.extend(object.values());
                }
                Json::Array(list) => rest.extend(list),
                _ => {}
            }
        }
        assert!(references > 100);
    }
}
