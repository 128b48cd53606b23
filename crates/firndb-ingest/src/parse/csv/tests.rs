//! Tests of the reader of CSV: what is a field, a row and a value.

use super::*;
use std::io::{BufReader, Cursor};

fn open(text: &[u8], dialect: &Dialect) -> Result<CsvRows> {
    let input = TextInput::new(Box::new(Cursor::new(text.to_vec())), "a.csv", dialect, false)?;
    CsvRows::new(input, "a.csv".into(), b',', dialect)
}

fn rows(text: &[u8]) -> Vec<RowResult> {
    rows_of(text, &Dialect::default())
}

fn rows_of(text: &[u8], dialect: &Dialect) -> Vec<RowResult> {
    let mut rows = open(text, dialect).unwrap();
    std::iter::from_fn(|| rows.next_row().unwrap()).collect()
}

/// The cells of all rows: a text, or nothing if it is missing. A bad row is its message.
fn cells(text: &[u8], dialect: &Dialect) -> Vec<Vec<Option<String>>> {
    let cell = |(_, value): (_, RawValue)| match value {
        RawValue::Text(text) => Some(text),
        RawValue::Missing => None,
        other => panic!("{other:?}"),
    };
    let row = |row: RowResult| match row {
        Ok(row) => row.cells.into_iter().map(cell).collect(),
        Err(bad) => vec![Some(bad.to_string())],
    };
    rows_of(text, dialect).into_iter().map(row).collect()
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some(text.to_string())).collect()
}

/// The error of the header, or its names.
fn header(text: &[u8], dialect: &Dialect) -> std::result::Result<Vec<String>, String> {
    let names = |rows: CsvRows| rows.columns().iter().map(|name| name.to_string()).collect();
    open(text, dialect).map(names).map_err(|e| e.to_string())
}

#[test]
fn records_have_the_numbers_of_their_first_lines() {
    let rows = rows(b"\xef\xbb\xbfa,b\r\n1,\"x\ny\"\r\n\n\r\n2,z\r\n3\n4,\xff\n");
    let first = rows[0].as_ref().unwrap();
    assert_eq!((first.position.line, &*first.cells[0].0), (2, "a"));
    assert_eq!(first.cells[1].1, RawValue::Text("x\ny".into()));
    assert_eq!(rows[1].as_ref().unwrap().cells[1].1, RawValue::Text("z".into()));
    assert_eq!(rows[1].as_ref().unwrap().position.line, 6);
    let short = rows[2].as_ref().unwrap_err().to_string();
    assert!(short.starts_with("a.csv:7: the row has 1 value where the header names 2"), "{short}");
    let bytes = rows[3].as_ref().unwrap_err().to_string();
    assert!(bytes.starts_with("a.csv:8: column `b`: the value is not valid UTF-8"), "{bytes}");
}

#[test]
fn a_carriage_return_in_quotes_is_data() {
    let last = |input: &[u8]| -> Vec<String> {
        let rows = cells(input, &Dialect::default());
        rows.into_iter().map(|mut row| row.pop().unwrap().unwrap()).collect()
    };
    assert_eq!(last(b"a,b\n1,\"x\r\"\n2,y\r\n3,\"z\"\r\n"), ["x\r", "y", "z"]);
    assert_eq!(last(b"a,b\n1,\"x\r\"\r\n\"2\",\"y\r\""), ["x\r", "y\r"]);
    assert_eq!(last(b"a\n\"\r\"\n\r\n\"\"\r\n\"\"\nx\r\n"), ["\r", "", "", "x"]);
    assert_eq!(last(b"a\nx\ry\r\r\n\"z\"\r"), ["x\ry\r", "z"]);
}

#[test]
fn lines_that_end_in_carriage_returns_alone_are_refused() {
    for text in ["a,b\r1,2\r3,4\r", "a\r1\r", "a,b\r1,2\n"] {
        let error = header(text.as_bytes(), &Dialect::default()).unwrap_err();
        assert!(error.contains("holds a carriage return"), "{error}");
    }
    assert_eq!(rows(b"a,\"b\r\nc\rd\"\r\n1,2\r\n").len(), 1);
}

#[test]
fn an_unclosed_quote_is_an_error() {
    for (text, line) in [("a,b\n1,2\n3,\"x\n4,5\n", 3), ("a,b\n1,2\n3,\"x", 3)] {
        let mut rows = open(text.as_bytes(), &Dialect::default()).unwrap();
        assert!(rows.next_row().unwrap().unwrap().is_ok());
        let error = rows.next_row().unwrap_err().to_string();
        assert!(error.contains(&format!("a.csv:{line}: a quote in this row")), "{error}");
    }
    assert!(open(b"a,\"b\n1,2\n", &Dialect::default()).is_err());
    assert_eq!(rows(b"a,b\n1,\"x\"\"\n\"").len(), 1);
    assert_eq!((rows(b"a\n\"x\"").len(), rows(b"a\r\nx\r\n").len(), rows(b"").len()), (1, 1, 0));
}

#[test]
fn a_row_that_is_too_long_ends_the_input_wherever_reads_end() {
    let text = format!("a,b\n# {}\n1,2\n3,\"{}\n", "x".repeat(50), "y\n".repeat(500_000));
    let dialect = Dialect::default().max_row(20).comment(b'#');
    for capacity in [1, 7, 1 << 20] {
        let reader = BufReader::with_capacity(capacity, Cursor::new(text.clone().into_bytes()));
        let input = TextInput::new(Box::new(reader), "a.csv", &dialect, false).unwrap();
        let mut rows = CsvRows::new(input, "a.csv".into(), b',', &dialect).unwrap();
        assert!(rows.next_row().unwrap().unwrap().is_ok());
        let error = rows.next_row().unwrap_err().to_string();
        let expected = "a.csv:4: the row is longer than 20 bytes, which --max-row sets; a quote";
        assert!(error.starts_with(expected), "{error}");
    }
    // The message does not depend on reads either: this quote is closed, in a later one.
    let errors = [1, 100].map(|capacity| {
        let text = Cursor::new(b"\"a\nbbbbbbbbbbbbbbbbbbbbbbbbbb\"c".to_vec());
        let reader = Box::new(BufReader::with_capacity(capacity, text));
        let input = TextInput::new(reader, "a.csv", &dialect, false).unwrap();
        CsvRows::new(input, "a.csv".into(), b',', &dialect).err().unwrap().to_string()
    });
    assert_eq!(errors[0], errors[1]);
    // The bytes of a row are those of its line.
    assert_eq!(cells(b"a\n1234567890123456789\n", &dialect).len(), 1);
    let mut rows = open(b"a\n12345678901234567890\n", &dialect).unwrap();
    assert!(rows.next_row().unwrap_err().to_string().contains("a.csv:2: the row is longer"));
}

/// The records of a text do not depend on the size of reads. Tries all short texts of some bytes.
#[test]
fn records_do_not_depend_on_the_size_of_reads() {
    let dialect = Dialect::default().escape(b'\\').comment(b'#').ragged(Ragged::Fill);
    let of = |text: &[u8], capacity: usize| {
        let reader = BufReader::with_capacity(capacity, Cursor::new(text.to_vec()));
        let input = TextInput::new(Box::new(reader), "a.csv", &dialect, false).unwrap();
        let mut rows = CsvRows::new(input, "a.csv".into(), b',', &dialect).unwrap();
        let mut all = Vec::new();
        loop {
            match rows.next_row() {
                Ok(Some(row)) => all.push(format!("{row:?}")),
                Ok(None) => return all,
                Err(e) => {
                    all.push(e.to_string());
                    return all;
                }
            }
        }
    };
    let alphabet = b"x,\"\n\r\\#N";
    for number in 0..8_u32.pow(6) {
        let mut text = b"a,b,c\n".to_vec();
        text.extend((0..6).map(|at| alphabet[(number / 8_u32.pow(at) % 8) as usize]));
        if number % 41 == 0 {
            assert_eq!(of(&text, 1), of(&text, 100), "{}", text.escape_ascii());
        }
    }
}

#[test]
fn a_header_of_one_column_that_looks_like_several_is_refused() {
    let chosen = |delimiter: u8| Dialect::default().delimiter(delimiter);
    let refused = header(b"k;x\n1;2\n", &Dialect::default()).unwrap_err();
    assert!(refused.contains("say --delimiter ';'"), "{refused}");
    assert_eq!(header(b"k;x\n1;2\n", &chosen(b';')).unwrap().len(), 2);
    assert_eq!(cells(b"k x\n1 2\n", &chosen(b' ')), [some(&["1", "2"])]);
    assert_eq!(header(b"k;x\n1\n", &chosen(b',')).unwrap(), ["k;x"]);
    assert_eq!(header(b"\"k;x\"\n1\n", &Dialect::default()).unwrap(), ["k;x"]);
    let refused = header(b"1;2\n", &Dialect::default().header(false)).unwrap_err();
    assert!(refused.contains("the first row has one value"), "{refused}");
}

#[test]
fn names_of_columns_are_taken_as_they_are() {
    let names = |text: &str| header(text.as_bytes(), &Dialect::default());
    assert_eq!(names(" a,b ,\"c\"\n").unwrap(), [" a", "b ", "c"]);
    // pandas does not name the column of its index.
    assert_eq!(names(",a,\"\",b\n").unwrap(), ["column1", "a", "column3", "b"]);
    assert_eq!(names("a,b,,\r\n").unwrap(), ["a", "b"]);
    assert!(names("a,,b,column2\n").unwrap_err().contains("repeats the name `column2`"));
    assert!(names("column2,,b\n").unwrap_err().contains("column 2 of the header has no name, and"));
    assert!(names("a,b,a\n").unwrap_err().contains("column 3 of the header repeats the name `a`"));
    let bytes = header(b"a,\xff\n", &Dialect::default()).unwrap_err();
    assert!(bytes.contains("column 2 of the header is not valid UTF-8"), "{bytes}");
}

#[test]
fn a_missing_value_is_not_an_empty_text() {
    let all = cells(b"a,b,c\n,\"\",x\n\"\",,\n", &Dialect::default());
    assert_eq!(all[0], [None, Some(String::new()), Some("x".to_string())]);
    assert_eq!(all[1], [Some(String::new()), None, None]);
}

#[test]
fn delimiters_behind_the_last_value_are_no_values() {
    let default = Dialect::default();
    assert_eq!(cells(b"a,b,\n1,2,\n3,4\n", &default), [some(&["1", "2"]), some(&["3", "4"])]);
    assert_eq!(cells(b"a,b\n1,2,,,\n", &default), [some(&["1", "2"])]);
    for bad in ["a,b\n1,2,3\n", "a,b,\n1,2,3\n", "a,b\n1,2,\"\"\n"] {
        let bad = cells(bad.as_bytes(), &default)[0][0].clone().unwrap();
        assert!(bad.contains("the row has 3 values where the header names 2"), "{bad}");
    }
}

#[test]
fn short_rows_are_filled_if_the_dialect_says_so() {
    let fill = Dialect::default().ragged(Ragged::Fill);
    let all = cells(b"a,b,c\n1\n2,x\n3,x,y,z\n", &fill);
    assert_eq!(all[0], [Some("1".to_string()), None, None]);
    assert_eq!(all[1], [Some("2".to_string()), Some("x".to_string()), None]);
    assert!(all[2][0].as_ref().unwrap().contains("has 4 values"), "{all:?}");
    let hint = &cells(b"a,b\n1\n", &Dialect::default())[0][0];
    assert!(hint.as_ref().unwrap().contains("--ragged fill"), "{hint:?}");
}

#[test]
fn rows_without_a_header_have_numbered_columns() {
    let dialect = Dialect::default().header(false);
    assert_eq!(header(b"1,,x,\n", &dialect).unwrap(), ["column1", "column2", "column3", "column4"]);
    assert_eq!(cells(b"1,x\n2,y\n", &dialect), [some(&["1", "x"]), some(&["2", "y"])]);
    assert_eq!(rows_of(b"", &dialect).len(), 0);
    let bad = &cells(b"1,x\n2\n", &dialect)[1][0];
    assert!(bad.as_ref().unwrap().contains("a.csv:2: the row has 1 value where the first row"));
}

#[test]
fn quotes_escapes_comments_and_lines_before_the_header() {
    let single = Dialect::default().quote(b'\'');
    assert_eq!(cells(b"a,b\n'x,''y','\"'\n", &single), [some(&["x,'y", "\""])]);
    let none = Dialect::default().quote(None);
    assert_eq!(cells(b"a,b\n\"x,y\"\n", &none), [some(&["\"x", "y\""])]);
    let escape = Dialect::default().escape(b'\\');
    let text = b"a,b\nx\\,y,\"\\\"\\\\\"\n\\N,p\\\nq\n";
    let all = cells(text, &escape);
    assert_eq!(all[0], some(&["x,y", "\"\\"]));
    assert_eq!(all[1], [None, Some("p\nq".to_string())]);
    for (wrong, reason) in [
        ("a,b\n1,C:\\Users\n", "`\\\\U` has no meaning in value 2"),
        ("a,b\n1,\\Nx\n", "value 2 goes on after an escaped N"),
        ("a,b\n1,x\\", "the file ends after an escape"),
    ] {
        let bad = cells(wrong.as_bytes(), &escape)[0][0].clone().unwrap();
        assert!(bad.contains("a.csv:2: ") && bad.contains(reason), "{bad}");
    }
    let comment = Dialect::default().comment(b'#').skip_lines(2);
    let text = b"title \"\n\n# about\na,b\n1,#x\n#2,y\n\"#3\",z\n#";
    assert_eq!(cells(text, &comment), [some(&["1", "#x"]), some(&["#3", "z"])]);
    assert_eq!(rows_of(text, &comment)[1].as_ref().unwrap().position.line, 7);
}

#[test]
fn text_after_a_closing_quote_is_a_bad_row() {
    let all = cells(b"a,b\n1,\"x\" y\n2,\"x\"\"y\"\n\"3\"\r,z\n4,a\"b\"\n", &Dialect::default());
    assert!(all[0][0].as_ref().unwrap().contains("closing quote of value 2"), "{all:?}");
    assert_eq!(all[1], some(&["2", "x\"y"]));
    assert!(all[2][0].as_ref().unwrap().contains("a.csv:4: text follows"), "{all:?}");
    assert_eq!(all[3], some(&["4", "a\"b\""]));
}

#[test]
fn json_lines_in_a_file_of_csv_get_a_hint() {
    let error = header(b"{\"id\":1,\"tags\":[\"a|b\",\"c\"]}\n", &Dialect::default());
    assert!(error.unwrap_err().contains("say --format jsonl"));
}

#[test]
fn any_bytes_are_data() {
    // Nothing in a file looks like its end.
    let text = b"a,b\n1,\0\xff\xfe\xfd\xfc\xfb\xff\n\xff\xfe\xfd\xfc\xfb\xff,\x1a\n2,y\n";
    let dialect = Dialect::default();
    let mut rows = open(text, &dialect).unwrap();
    let mut found = Vec::new();
    while let Some((_, record)) = rows.next_record().unwrap() {
        found.push(record.unwrap().get(1).unwrap().to_vec());
    }
    assert_eq!(found, [&b"\0\xff\xfe\xfd\xfc\xfb\xff"[..], b"\x1a", b"y"]);
}

#[test]
fn wide_characters_are_converted() {
    let text = "a;b\n1;\"x\n\u{e9}\"\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let dialect = Dialect::default().delimiter(b';').encoding(encoding_rs::UTF_16BE);
    assert_eq!(cells(&bytes, &dialect), [some(&["1", "x\n\u{e9}"])]);
    let utf8 = Dialect::default().encoding(encoding_rs::UTF_8);
    let all = cells(b"a\nx\n\xff\ny\n", &utf8);
    assert_eq!(all[1][0].as_ref().unwrap(), "a.csv:3: the row is not valid UTF-8");
    assert_eq!((all.len(), &all[2]), (3, &some(&["y"])));
}
