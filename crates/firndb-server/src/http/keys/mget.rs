//! `POST /v1/KIND/NAME:mget`: the values of many keys, in their order.

use super::encoding::{Encoding, Text};
use super::frames::Frames;
use super::rows::{Row, Rows};
use crate::app::Deadline;
use crate::http::negotiate::{Compression, Form};
use crate::http::parse::{self, Input};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::{Context, body};
use crate::stores::{Entry, Kind};
use bytes::Bytes;
use firndb_ingest::Shown;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::Deserialize;
use std::borrow::Cow;

/// The JSON body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'a> {
    #[serde(borrow)]
    keys: Vec<Text<'a>>,
    #[serde(default)]
    encoding: Encoding,
    /// Whether versions of records are wanted.
    #[serde(default)]
    versions: bool,
}

/// Keys between two looks at the deadline.
const DEADLINE_KEYS: usize = 64;

/// A request for many keys.
struct Mget {
    input: Input,
    form: Form,
    body: Bytes,
    max_keys: usize,
    max_bytes: usize,
}

/// Handles a request for many keys. The response has the form of the request's body, unless the
/// client accepts another one.
pub async fn mget(context: &Context, kind: Kind, store: &str, request: Request<Incoming>) -> Reply {
    let entry = crate::http::stores::find(context, kind, store)?;
    let (parts, body) = request.into_parts();
    let input = Input::of(&parts.headers, &[Input::Json, Input::Binary])?;
    let offered = match input {
        Input::Binary => [Form::Binary, Form::Json, Form::Ndjson],
        _ => [Form::Json, Form::Ndjson, Form::Binary],
    };
    let form = Form::choose(&parts.headers, &offered)?;
    let compression = Compression::choose(&parts.headers);
    let body = body::read(context, body).await?;
    let max_bytes = context.response_limit();
    let mget = Mget { input, form, body, max_keys: context.app.config.limits.keys, max_bytes };
    let work = move |deadline: Deadline| {
        let answer = mget.run(&entry, &deadline);
        Ok(answer.and_then(|out| compression.respond(max_bytes, StatusCode::OK, form, out)))
    };
    context.app.work(work).await?
}

impl Mget {
    fn run(&self, entry: &Entry, deadline: &Deadline) -> Result<Vec<u8>, Problem> {
        let (keys, encoding, versions) = match self.input {
            Input::Binary => (self.framed()?, Encoding::default(), false),
            _ => {
                let wanted: Wanted<'_> = parse::json(&self.body, self.max_keys, 1)?;
                let keys = wanted.keys.into_iter();
                let keys = keys.map(|key| wanted.encoding.decode("key", key));
                (keys.collect::<Result<Vec<_>, _>>()?, wanted.encoding, wanted.versions)
            }
        };
        if keys.len() > self.max_keys {
            return Err(parse::too_many(self.max_keys));
        }
        match entry.kind() {
            Kind::Log => {
                let shown = Shown::bytes();
                let rows = self.rows(&shown).with(encoding, versions);
                read_log(entry, &keys, rows, deadline)
            }
            _ => {
                let handle = entry.table()?;
                let read = |shown: &Shown| {
                    let mut rows = self.rows(shown).with(encoding, versions);
                    handle.get_ref()?.read_many(&keys, |i, value| {
                        check(deadline, i)?;
                        rows.push_answer(&Row { key: &keys[i], value, meta: None })
                    })?;
                    Ok(rows.finish(None))
                };
                entry.with_shown(&handle, read)?
            }
        }
    }

    fn rows<'a>(&self, shown: &'a Shown) -> Rows<'a> {
        Rows::new(self.form, "values", self.max_bytes, shown)
    }

    /// The keys of a binary body.
    fn framed(&self) -> Result<Vec<Cow<'_, [u8]>>, Problem> {
        let mut frames = Frames::new(&self.body);
        let mut keys = Vec::new();
        while !frames.is_empty() {
            keys.push(Cow::Borrowed(frames.field()?));
            if keys.len() > self.max_keys {
                return Err(parse::too_many(self.max_keys));
            }
        }
        Ok(keys)
    }
}

fn read_log(
    entry: &Entry,
    keys: &[Cow<'_, [u8]>],
    mut rows: Rows<'_>,
    deadline: &Deadline,
) -> Result<Vec<u8>, Problem> {
    entry.log()?.read_many(keys, |i, record| {
        check(deadline, i)?;
        match record {
            Some(record) => rows.push_answer(&Row::of_log(&record)),
            None => rows.push_answer(&Row { key: &keys[i], value: None, meta: None }),
        }
    })?;
    Ok(rows.finish(None))
}

fn check(deadline: &Deadline, key: usize) -> firndb::Result<()> {
    match key % DEADLINE_KEYS {
        0 => deadline.check(),
        _ => Ok(()),
    }
}
