//! `POST /v1/KIND/NAME:scan`: a page of all keys. The server keeps nothing between two pages.
//!
//! A cursor is a decimal number, opaque to clients. That of a log store is the one of the library.
//! That of a table has, from the lowest bit on, 63 bits of the position, 20 bits of
//! the shard, and 45 bits that identify the contents of the table: in another version of the table
//! it has expired.

use super::encoding::Encoding;
use super::rows::{Row, Rows};
use crate::app::Deadline;
use crate::http::negotiate::{Compression, Form};
use crate::http::parse::{self, Input};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::{Context, body};
use crate::stores::{Entry, Kind, TableCursor, TableRef};
use firndb_ingest::Shown;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use serde::Deserialize;

/// The cursor of the next page, in the response; missing if the scan is complete.
const NEXT: HeaderName = HeaderName::from_static("firndb-next");

/// The number of records of a page if the client does not say.
const PAGE: usize = 1000;

const POSITION_BITS: u32 = 63;
const SHARD_BITS: u32 = 20;

/// The JSON body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Scan {
    cursor: String,
    limit: Option<usize>,
    encoding: Encoding,
    /// Whether values are wanted.
    values: bool,
    /// Whether versions of records are wanted.
    versions: bool,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            cursor: "0".to_string(),
            limit: None,
            encoding: Encoding::default(),
            values: true,
            versions: false,
        }
    }
}

/// Handles a request for a page.
pub async fn scan(context: &Context, kind: Kind, store: &str, request: Request<Incoming>) -> Reply {
    let entry = crate::http::stores::find(context, kind, store)?;
    let (parts, body) = request.into_parts();
    Input::of(&parts.headers, &[Input::Json])?;
    let form = Form::choose(&parts.headers, &[Form::Json, Form::Ndjson, Form::Binary])?;
    let compression = Compression::choose(&parts.headers);
    let body = body::read(context, body).await?;
    let scan: Scan = match body.trim_ascii().is_empty() {
        true => Scan::default(),
        false => parse::json(&body, 1, 1)?,
    };
    let cursor = parse_cursor(&scan.cursor)?;
    let max = context.app.config.limits.page;
    let limit = scan.limit.unwrap_or(PAGE.min(max));
    if !(1..=max).contains(&limit) {
        let detail = format!("`limit` is {limit}: it must be from 1 to {max}");
        return Err(Problem::bad_request(detail));
    }
    let page = Page { scan, form, cursor, limit, max_bytes: context.response_limit() };
    let work = move |deadline: Deadline| {
        let max_bytes = page.max_bytes;
        let read = || -> Reply {
            let (out, next) = page.read(&entry, &deadline)?;
            let mut response = compression.respond(max_bytes, StatusCode::OK, form, out)?;
            if let Some(next) = next {
                let next = HeaderValue::from_str(&next).expect("digits are printable");
                response.headers_mut().insert(NEXT, next);
            }
            Ok(response)
        };
        Ok(read())
    };
    context.app.work(work).await?
}

fn parse_cursor(text: &str) -> Result<u128, Problem> {
    let plain = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let cursor = Some(text).filter(|_| plain).and_then(|text| text.parse().ok());
    cursor.ok_or_else(|| {
        Problem::bad_request(
            "`cursor` is not a cursor: \"0\" begins a scan, others come from pages",
        )
    })
}

/// A page that is read.
struct Page {
    scan: Scan,
    form: Form,
    cursor: u128,
    limit: usize,
    max_bytes: usize,
}

/// A body, and the cursor of the next page.
type Output = (Vec<u8>, Option<String>);

impl Page {
    fn read(&self, entry: &Entry, deadline: &Deadline) -> Result<Output, Problem> {
        match entry.kind() {
            Kind::Log => self.read_log(entry),
            _ => {
                let handle = entry.table()?;
                let read = |shown: &Shown| self.read_table(&handle.get_ref()?, shown, deadline);
                entry.with_shown(&handle, read)?
            }
        }
    }

    fn rows<'a>(&self, shown: &'a Shown) -> Rows<'a> {
        let rows = Rows::new(self.form, "records", self.max_bytes, shown);
        rows.with(self.scan.encoding, self.scan.versions)
    }

    fn finish(&self, rows: Rows<'_>, next: Option<u128>) -> Output {
        let next = next.map(|next| next.to_string());
        (rows.finish(Some(next.as_deref())), next)
    }

    fn read_log(&self, entry: &Entry) -> Result<Output, Problem> {
        // Larger numbers are no cursors either: the store says so.
        let cursor = u64::try_from(self.cursor).unwrap_or(u64::MAX);
        let shown = Shown::bytes();
        let (mut rows, mut result) = (self.rows(&shown), Ok(()));
        let next = entry.log()?.scan_from_with(cursor, self.limit, |record| {
            let mut row = Row::of_log(&record);
            row.value = row.value.filter(|_| self.scan.values);
            if result.is_ok() {
                result = rows.push_record(&row);
            }
        })?;
        result?;
        Ok(self.finish(rows, next.map(u128::from)))
    }

    fn read_table(
        &self,
        table: &TableRef<'_>,
        shown: &Shown,
        deadline: &Deadline,
    ) -> Result<Output, Problem> {
        let id = table.content_id()?;
        let cursor = table_cursor(self.cursor, id)?;
        let (mut rows, mut result) = (self.rows(shown), Ok(()));
        let next = table.scan_from(cursor, self.limit, deadline, |key, value| {
            let row = Row { key, value: Some(value).filter(|_| self.scan.values), meta: None };
            if result.is_ok() {
                result = rows.push_record(&row);
            }
        })?;
        result?;
        Ok(self.finish(rows, next.map(|next| packed(next, id))))
    }
}

/// The bits of a cursor that identify the contents of a table.
fn id_bits(id: u64) -> u128 {
    u128::from(id) >> (POSITION_BITS + SHARD_BITS - u64::BITS)
}

fn packed(cursor: TableCursor, id: u64) -> u128 {
    let shard = (cursor.shard as u128) << POSITION_BITS;
    id_bits(id) << (POSITION_BITS + SHARD_BITS) | shard | u128::from(cursor.position)
}

fn table_cursor(cursor: u128, id: u64) -> Result<TableCursor, Problem> {
    if cursor == 0 {
        return Ok(TableCursor { shard: 0, position: 0 });
    }
    if cursor >> (POSITION_BITS + SHARD_BITS) != id_bits(id) {
        return Err(Problem::cursor_expired());
    }
    let low = |bits: u32| (1u128 << bits) - 1;
    Ok(TableCursor {
        shard: (cursor >> POSITION_BITS & low(SHARD_BITS)) as usize,
        position: (cursor & low(POSITION_BITS)) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_tables_belong_to_their_contents() {
        let cursor = TableCursor { shard: 99_999, position: (1 << 63) - 1 };
        let id = u64::MAX - 12345;
        let packed = packed(cursor, id);
        assert_eq!(table_cursor(packed, id).unwrap(), cursor);
        assert!(table_cursor(packed, id ^ 1 << 63).unwrap_err().to_string().starts_with("410"));
        assert!(table_cursor(1, id).is_err());
        assert_eq!(table_cursor(0, id).unwrap(), TableCursor { shard: 0, position: 0 });
    }

    #[test]
    fn cursors_are_decimal_numbers() {
        assert_eq!(parse_cursor("0").unwrap(), 0);
        assert_eq!(parse_cursor(&u128::MAX.to_string()).unwrap(), u128::MAX);
        for wrong in ["", "-1", "+1", " 1", "0x1", "1.0", "a", &format!("{}0", u128::MAX)] {
            assert!(parse_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
