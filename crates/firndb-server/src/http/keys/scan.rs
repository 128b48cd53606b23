//! `POST /v1/KIND/NAME:scan`: a page of all keys. The server keeps nothing between two pages.
//!
//! A cursor is opaque to clients. That of a log store is the decimal number of the library. That of
//! a table is a number that has, from the lowest bit on, 63 bits of the position, 20 bits of the
//! shard, and 45 bits that identify the contents of the table: in another version of the table it
//! has expired.
//!
//! A scan that names a prefix, a bound or a direction goes through an ordered store in the order of
//! the keys. Its cursor is `k` and the last key of the page in base64url, so it stays valid however
//! the store changes. Such a scan can also be asked for with `GET` and parameters: see `ask.rs`.

use super::ask::{Ask, Cursor};
use super::rows::{Row, Rows};
use crate::app::Deadline;
use crate::http::negotiate::{Compression, Form};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::{Context, body, parse};
use crate::stores::{Entry, Kind, TableCursor, TableRef};
use firndb_ingest::Shown;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};

/// The cursor of the next page, in the response; missing if the scan is complete.
const NEXT: HeaderName = HeaderName::from_static("firndb-next");

/// The number of records of a page if the client does not say.
const PAGE: usize = 1000;
/// A page in the order of keys ends when it has this many bytes.
const PAGE_BYTES: usize = 16 << 20;
/// Steps of such a scan between two looks at the deadline.
const BETWEEN_CHECKS: usize = 64;

const POSITION_BITS: u32 = 63;
const SHARD_BITS: u32 = 20;

/// Handles a request for a page.
pub async fn scan(context: &Context, kind: Kind, store: &str, request: Request<Incoming>) -> Reply {
    let entry = crate::http::stores::find(context, kind, store)?;
    let (parts, body) = request.into_parts();
    let form = Form::choose(&parts.headers, &[Form::Json, Form::Ndjson, Form::Binary])?;
    let compression = Compression::choose(&parts.headers);
    let ask = match parts.method {
        Method::GET => Ask::of_query(parts.uri.query().unwrap_or_default())?,
        _ => {
            parse::Input::of(&parts.headers, &[parse::Input::Json])?;
            Ask::of_body(&body::read(context, body).await?)?
        }
    };
    let max = context.app.config.limits.page;
    let limit = ask.limit.unwrap_or(PAGE.min(max));
    if !(1..=max).contains(&limit) {
        let detail = format!("`limit` is {limit}: it must be from 1 to {max}");
        return Err(Problem::bad_request(detail));
    }
    let page = Page { ask, form, limit, max_bytes: context.response_limit() };
    let work = move |deadline: Deadline| {
        let max_bytes = page.max_bytes;
        let read = || -> Reply {
            let (out, next) = page.read(&entry, &deadline)?;
            let mut response = compression.respond(max_bytes, StatusCode::OK, form, out)?;
            if let Some(next) = next {
                let next =
                    HeaderValue::from_str(&next).expect("digits and base64url are printable");
                response.headers_mut().insert(NEXT, next);
            }
            Ok(response)
        };
        Ok(read())
    };
    context.app.work(work).await?
}

/// A page that is read.
struct Page {
    ask: Ask,
    form: Form,
    limit: usize,
    max_bytes: usize,
}

/// A body, and the cursor of the next page.
type Output = (Vec<u8>, Option<String>);

impl Page {
    fn read(&self, entry: &Entry, deadline: &Deadline) -> Result<Output, Problem> {
        match entry.kind() {
            Kind::Log => match &self.ask.cursor {
                Cursor::Number(cursor) => self.read_log(entry, *cursor),
                Cursor::Keys(_) => self.read_log_in_order(entry, deadline),
            },
            _ => {
                let handle = entry.table()?;
                let read = |shown: &Shown| {
                    let table = handle.get_ref()?;
                    match &self.ask.cursor {
                        Cursor::Number(cursor) => self.read_table(&table, *cursor, shown, deadline),
                        Cursor::Keys(_) => self.read_table_in_order(&table, shown, deadline),
                    }
                };
                entry.with_shown(&handle, read)?
            }
        }
    }

    fn rows<'a>(&self, shown: &'a Shown) -> Rows<'a> {
        let rows = Rows::new(self.form, "records", self.max_bytes, shown);
        rows.with(self.ask.encoding, self.ask.versions)
    }

    fn finish(&self, rows: Rows<'_>, next: Option<Cursor>) -> Output {
        let next = next.map(|next| next.to_string());
        (rows.finish(Some(next.as_deref())), next)
    }

    fn read_log(&self, entry: &Entry, cursor: u128) -> Result<Output, Problem> {
        // Larger numbers are no cursors either: the store says so.
        let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
        let shown = Shown::bytes();
        let (mut rows, mut result) = (self.rows(&shown), Ok(()));
        let next = entry.log()?.scan_from_with(cursor, self.limit, |record| {
            let mut row = Row::of_log(&record);
            row.value = row.value.filter(|_| self.ask.values);
            if result.is_ok() {
                result = rows.push_record(&row);
            }
        })?;
        result?;
        Ok(self.finish(rows, next.map(|next| Cursor::Number(next.into()))))
    }

    fn read_table(
        &self,
        table: &TableRef<'_>,
        cursor: u128,
        shown: &Shown,
        deadline: &Deadline,
    ) -> Result<Output, Problem> {
        let id = table.content_id()?;
        let cursor = table_cursor(cursor, id)?;
        let (mut rows, mut result) = (self.rows(shown), Ok(()));
        let next = table.scan_from(cursor, self.limit, deadline, |key, value| {
            let row = Row { key, value: Some(value).filter(|_| self.ask.values), meta: None };
            if result.is_ok() {
                result = rows.push_record(&row);
            }
        })?;
        result?;
        Ok(self.finish(rows, next.map(|next| Cursor::Number(packed(next, id)))))
    }

    /// A page of an ordered log store.
    fn read_log_in_order(&self, entry: &Entry, deadline: &Deadline) -> Result<Output, Problem> {
        let mut records = entry.log()?.range(self.ask.rest())?;
        if self.ask.reverse {
            records = records.reversed();
        }
        self.read_in_order(&Shown::bytes(), deadline, |read| {
            records.step_with(|record| read(&Row::of_log(&record)))
        })
    }

    /// A page of an ordered table.
    fn read_table_in_order(
        &self,
        table: &TableRef<'_>,
        shown: &Shown,
        deadline: &Deadline,
    ) -> Result<Output, Problem> {
        let mut records = table.range(self.ask.rest())?;
        if self.ask.reverse {
            records = records.reversed();
        }
        self.read_in_order(shown, deadline, |read| {
            records.next_with(|key, value| {
                read(&Row { key, value: Some(value), meta: None });
                Some(())
            })
        })
    }

    /// A page of the records that `step` passes to the function that it is given, at most one per
    /// call.
    fn read_in_order(
        &self,
        shown: &Shown,
        deadline: &Deadline,
        mut step: impl FnMut(&mut dyn FnMut(&Row<'_>)) -> Option<firndb::Result<Option<()>>>,
    ) -> Result<Output, Problem> {
        let (mut rows, mut result) = (self.rows(shown), Ok(()));
        let (mut count, mut bytes, mut last) = (0, 0, Vec::new());
        for steps in 0.. {
            if steps % BETWEEN_CHECKS == 0 {
                deadline.check()?;
            }
            let is_full = count == self.limit || bytes >= PAGE_BYTES;
            let read = step(&mut |row| {
                if is_full {
                    return;
                }
                bytes += row.key.len() + row.value.map_or(0, <[u8]>::len);
                last.clear();
                last.extend_from_slice(row.key);
                let row = Row { value: row.value.filter(|_| self.ask.values), ..*row };
                result = rows.push_record(&row);
            });
            match read {
                None => break,
                Some(Ok(None)) => {}
                // A damaged record behind the page is the error of the next one.
                Some(_) if is_full => {
                    return Ok(self.finish(rows, Some(Cursor::Keys(Some(last)))));
                }
                Some(read) => count += usize::from(read?.is_some()),
            }
            std::mem::replace(&mut result, Ok(()))?;
        }
        Ok(self.finish(rows, None))
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
}
