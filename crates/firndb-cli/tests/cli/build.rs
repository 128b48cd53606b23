//! `firn search build`: formats, compression, schemas, bad rows, existing collections.

use super::{ROWS, Sandbox, csv, jsonl};
use firndb_ingest::{BatchOptions, BatchReader, BatchWriter, Format};
use std::io::Write;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The rows in a format whose columns have types.
fn with_types(format: Format) -> Vec<u8> {
    let input = std::io::Cursor::new(csv().into_bytes());
    let reader = BatchReader::from_reader("rows.csv", input, BatchOptions::default()).unwrap();
    let mut writer = BatchWriter::new(Vec::new(), format, reader.schema()).unwrap();
    reader.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
    writer.finish().unwrap()
}

/// The content of a collection, in an order that does not depend on how it was built.
fn content(sandbox: &Sandbox, dir: &str) -> String {
    sandbox.firn(&format!("search scan {dir} 'all order by id' --format jsonl")).ok().out
}

/// A killed build leaves its folder. The next build removes it, but not those of live processes.
#[test]
fn the_next_build_removes_leftovers_of_killed_builds() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv());
    // No process has this id on Linux: ids end at 4,194,304.
    let random = "0123456789abcdef";
    let of = |process: &str| format!(".c.firn-{process}-{random}");
    let (gone, elsewhere) = (&*of("4294967295"), &*of("4294967294"));
    let alive = of(&std::process::id().to_string());
    let not_ours = [".c.firn-", ".c.firn-4294967295", &of("4294967295x"), &of("4294967295")[..30]];
    let sibling = format!(".d.firn-4294967295-{random}");
    let others = [&[&*alive, elsewhere, &*sibling], &not_ours[..]].concat();
    for dir in others.iter().chain([&gone]) {
        std::fs::create_dir(sandbox.path(dir)).unwrap();
        sandbox.write(&format!("{dir}/lock"), "");
        sandbox.write(&format!("{dir}/1.part.firn"), "half a partition");
    }
    let lock = std::fs::File::open(sandbox.path(elsewhere).join("lock")).unwrap();
    lock.lock().unwrap();
    sandbox.firn("search build data.csv -o c").ok();
    assert!(!sandbox.path(gone).exists());
    assert!(others.iter().all(|dir| sandbox.path(dir).join("1.part.firn").exists()));
    drop(lock);
    std::fs::remove_dir_all(sandbox.path("c")).unwrap();
    sandbox.firn("search build data.csv -o c").ok();
    assert!(!sandbox.path(elsewhere).exists());
}

/// A build that waits for its input while other processes create files.
#[test]
fn a_failed_build_keeps_files_of_other_processes() {
    let sandbox = Sandbox::new();
    let rows = csv();
    sandbox.write("data.csv", &rows);
    let slow = sandbox.firn_while("search build - -o c", rows.as_bytes(), || {
        sandbox.firn("search build data.csv -o c").ok();
        sandbox.write("c/notes.txt", "mine");
    });
    slow.fails(4, "there is a collection already");
    assert_eq!(sandbox.firn("search count c").ok().out, format!("{ROWS}\n"));
    assert!(sandbox.path("c/notes.txt").exists());

    sandbox.firn("search build data.csv -o d --partition a/b").fails(2, "a/b");
    assert!(!sandbox.path("d").exists(), "what it made itself is gone");
    std::fs::create_dir(sandbox.path("d")).unwrap();
    sandbox.firn("search build data.csv -o d --partition a/b").fails(2, "a/b");
    assert_eq!(std::fs::read_dir(sandbox.path("d")).unwrap().count(), 0);
    sandbox.firn("search build data.csv -o d").ok();
}

#[test]
fn different_values_go_to_different_partitions() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(120);
    let cities = ["\u{6771}\u{4eac}", "\u{5927}\u{962a}", "Malm\u{f6}", "Malm_", "", "none"];
    let cities = cities.map(str::to_string).into_iter().chain(["a", "b"].map(|x| long.clone() + x));
    let rows: String = cities.enumerate().map(|(n, city)| format!("{city},{n}\n")).collect();
    sandbox.write("a.csv", format!("city,n\n{rows}"));
    sandbox.firn("search build a.csv -o c --partition-by city").ok();
    assert_eq!(sandbox.firn("search partitions c --json").ok().json().len(), 8);
    sandbox.write("b.csv", "city,n\n\u{6771}\u{4eac},10\n");
    sandbox.firn("search build b.csv -o c --partition-by city --update").ok();
    assert_eq!(sandbox.firn("search count c").ok().out, "8\n");
    assert_eq!(sandbox.firn("search count c 'n = 10'").ok().out, "1\n");
}

#[test]
fn numbers_keep_all_their_digits() {
    let sandbox = Sandbox::new();
    let numbers = "{\"x\":400159382.06231236,\"big\":99999999999999999999,\"id\":1}\n";
    sandbox.write("a.jsonl", numbers);
    sandbox.firn("search build a.jsonl -o c").ok();
    assert_eq!(sandbox.firn("search count c 'x = 400159382.06231236'").ok().out, "1\n");
    assert_eq!(sandbox.firn("search count c 'big = \"99999999999999999999\"'").ok().out, "1\n");
    assert_eq!(sandbox.firn("search query c --payload").ok().out, numbers);
    let shown = sandbox.firn("search query c --payload --json").ok().out;
    assert_eq!(shown.matches("400159382.06231236").count(), 2, "{shown}");
    sandbox.write("b.csv", "id\n9007199254740993\n9007199254740992\n0.5\n");
    sandbox.firn("search build b.csv -o d").ok();
    assert_eq!(sandbox.firn("search count d 'id = \"9007199254740993\"'").ok().out, "1\n");
}

#[test]
fn ambiguous_csv_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("open.csv", "id,x\n1,a\n2,\"oops\n3,c\n");
    let run = sandbox.firn("search build open.csv -o c --on-error skip");
    run.fails(2, "open.csv:3: a quote in this row is not closed");
    sandbox.write("semi.csv", "id;x\n1;a\n");
    sandbox.firn("search build semi.csv -o c").fails(2, "say --delimiter \';\'");
    sandbox.firn("search build semi.csv -o c --delimiter ;").ok();
    assert_eq!(sandbox.firn("search scan c").ok().out, "id,x\n1,a\n");
    sandbox.write("rows.parquet", "PAR1rest");
    sandbox.firn("search build rows.parquet -o e").fails(6, "this Parquet file cannot be read");
}

#[test]
fn every_format_and_compression_gives_the_same_collection() {
    let sandbox = Sandbox::new();
    let (csv, tsv) = (csv(), csv().replace(',', "\t"));
    sandbox.write("plain.csv", &csv);
    sandbox.write("packed.csv.gz", gzip(&csv));
    // Compression is detected by the content, whatever the name.
    sandbox.write("packed.csv", zstd::encode_all(csv.as_bytes(), 1).unwrap());
    sandbox.write("tabs", &tsv);
    sandbox.write("lines.jsonl.zst", zstd::encode_all(jsonl().as_bytes(), 1).unwrap());
    sandbox.write("windows.csv", csv.replace('\n', "\r\n"));
    sandbox.firn("search build plain.csv -o plain").ok();
    let expected = content(&sandbox, "plain");
    assert_eq!(expected.lines().count() as u64, ROWS);
    let typed = [Format::Parquet, Format::Arrow, Format::Avro].map(|format| {
        let name = format!("typed.{}", format.name());
        sandbox.write(&name, with_types(format));
        name
    });
    let plain = ["packed.csv.gz", "packed.csv", "tabs", "lines.jsonl.zst", "windows.csv"];
    for input in plain.map(String::from).into_iter().chain(typed) {
        sandbox.firn(&format!("search build {input} -o of-{input}")).ok();
        assert_eq!(content(&sandbox, &format!("of-{input}")), expected, "{input}");
    }
    for (input, name) in [(csv.as_bytes(), "a"), (&gzip(&jsonl()), "b"), (tsv.as_bytes(), "c")] {
        sandbox.firn_with(&format!("search build - -o stdin-{name}"), input).ok();
        assert_eq!(content(&sandbox, &format!("stdin-{name}")), expected);
    }
}

#[test]
fn directories_and_several_files_are_read_in_order() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("in/deep")).unwrap();
    sandbox.write("in/b.csv", "id,x\n2,b\n");
    sandbox.write("in/deep/c.jsonl", "{\"id\":3,\"x\":\"c\"}\n");
    sandbox.write("in/README", "not data");
    sandbox.write("a.csv", "id,x\n1,a\n");
    let built = sandbox.firn("search build a.csv in -o c --json").ok().json();
    assert_eq!((&built[0]["documents"], &built[0]["partitions"]), (&3.into(), &1.into()));
    assert!(content(&sandbox, "c").starts_with("{\"id\":1,\"x\":\"a\"}\n{\"id\":2"));
    std::fs::create_dir_all(sandbox.path("empty")).unwrap();
    sandbox.firn("search build empty -o d").fails(2, "holds no data file");
    sandbox.firn("search build nowhere.csv -o d").fails(3, "nowhere.csv");
}

#[test]
fn an_inferred_schema_can_be_used_as_input() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv());
    let inferred = sandbox.firn("search build data.csv --infer").ok().out;
    for field in ["id", "region", "price", "day", "rating", "ok"] {
        assert!(inferred.contains(&format!("name = \"{field}\"")), "{inferred}");
    }
    assert!(inferred.contains("type = \"timestamp\"") && inferred.contains("type = \"bool\""));
    sandbox.write("schema.toml", &inferred);
    sandbox.firn("search build data.csv -o a --schema schema.toml").ok();
    sandbox.firn("search build data.csv -o b").ok();
    assert_eq!(content(&sandbox, "a"), content(&sandbox, "b"));
}

#[test]
fn a_schema_error_shows_its_position() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv());
    sandbox.write("schema.toml", "[fields]\nid = \"i46 full\"\n");
    let run =
        sandbox.firn("search build data.csv -o c --schema schema.toml").fails(2, "schema.toml");
    assert!(run.err.contains("i46") && run.err.contains('^'), "{}", run.err);
    assert!(!sandbox.path("c").exists());
}

#[test]
fn a_bad_row_stops_the_build_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv() + "x,north,1,2024-01-01,1,true\n7,north\n");
    sandbox.write("schema.toml", "[fields]\nid = \"i64 full\"\nregion = \"string full\"\n");
    let run = sandbox.firn("search build data.csv -o c --schema schema.toml");
    let run = run.fails(2, "data.csv:602: column `id`: `x` is not of type i64");
    assert!(run.err.starts_with("error: ") && run.out.is_empty());
    assert!(!sandbox.path("c").exists());

    let run = sandbox.firn("search build data.csv -o c --schema schema.toml --on-error skip").ok();
    assert!(run.err.contains("skipped 2 of 602 rows"), "{}", run.err);
    assert!(run.err.contains("data.csv:603: the row has 2 values"), "{}", run.err);
    assert!(run.err.contains("note: column `price`"), "{}", run.err);
    assert_eq!(sandbox.firn("search count c").ok().out, format!("{ROWS}\n"));
}

#[test]
fn json_errors_name_their_line() {
    let sandbox = Sandbox::new();
    sandbox.write("data.jsonl", "{\"id\":1}\n{\"id\":\n{\"id\":[[1]]}\n");
    sandbox.firn("search build data.jsonl -o c").fails(2, "data.jsonl:2: the line is not a JSON");
    let run = sandbox.firn("search build data.jsonl -o c --on-error skip").ok();
    assert!(run.err.contains("data.jsonl:3: column `id`: an array"), "{}", run.err);
}

#[test]
fn a_duplicate_json_member_is_a_bad_row() {
    // The parser silently keeps the last of two values; CSV refuses two columns of one name.
    let sandbox = Sandbox::new();
    sandbox
        .write("a.jsonl", "{\"id\":1,\"v\":1}\n{\"id\":2,\"v\":1,\"v\":2}\n{\"id\":3,\"v\":1}\n");
    let message = "a.jsonl:2: an object has the member `v` twice";
    for command in [
        "search build a.jsonl -o c",
        "table build -i a.jsonl -o t --key id",
        "log load l a.jsonl --key id",
    ] {
        sandbox.firn(command).fails(2, message);
        let run = sandbox.firn(&format!("{command} --on-error skip")).ok();
        assert!(run.err.contains(message), "{command}: {}", run.err);
    }
    assert_eq!(sandbox.firn("search count c").ok().out, "2\n");
    sandbox.firn("table get t 2").fails(3, "");
    sandbox.firn("log get l 2").fails(3, "");
}

#[test]
fn numbers_in_json_are_read_as_in_csv() {
    let sandbox = Sandbox::new();
    // `-0` makes the column a double, and `1e-400` a text, since an f64 would round it to 0.
    sandbox.write("a.jsonl", "{\"id\":1,\"x\":-0,\"y\":0.5}\n{\"id\":2,\"x\":7,\"y\":1e-400}\n");
    sandbox.write("a.csv", "id,x,y\n1,-0,0.5\n2,7,1e-400\n");
    for form in ["jsonl", "csv"] {
        sandbox.firn(&format!("table build -i a.{form} -o {form}.t --key id")).ok();
        let get = |key| sandbox.firn(&format!("table get {form}.t {key} --json")).ok().json();
        assert_eq!(get(1)[0]["value"]["x"].as_f64().map(f64::to_bits), Some((-0.0f64).to_bits()));
        assert_eq!(
            (&get(1)[0]["value"]["y"], &get(2)[0]["value"]["y"]),
            (&"0.5".into(), &"1e-400".into())
        );
        sandbox.firn(&format!("search build a.{form} -o {form}.c")).ok();
        let fields = sandbox.firn(&format!("search scan {form}.c 'order by id'")).ok().out;
        // A collection has only one zero.
        assert_eq!(fields, "id,x,y\n1,0.0,0.5\n2,7.0,1e-400\n", "{form}");
    }
    // The same with a schema: integers have one zero, and both formats refuse the same values.
    sandbox.write("s.toml", "[fields]\nid = \"i64 full\"\nx = \"i64 full\"\ny = \"f64 full\"\n");
    for form in ["jsonl", "csv"] {
        let command = format!("search build a.{form} -o {form}.d --schema s.toml");
        let run = sandbox.firn(&command);
        run.fails(2, &format!("a.{form}:{}: column `y`: `1e", if form == "csv" { 3 } else { 2 }));
        sandbox.firn(&format!("{command} --on-error skip")).ok();
        assert_eq!(sandbox.firn(&format!("search count {form}.d 'x = 0'")).ok().out, "1\n");
    }
}

#[test]
fn lists_become_multi_valued_fields() {
    let sandbox = Sandbox::new();
    sandbox
        .write("data.jsonl", "{\"id\":1,\"t\":[\"a\",\"b\"]}\n{\"id\":2,\"t\":[]}\n{\"id\":3}\n");
    sandbox.firn("search build data.jsonl -o c").ok();
    assert_eq!(sandbox.firn("search count c 't = \"b\"'").ok().out, "1\n");
    assert_eq!(sandbox.firn("search count c 'not exists t'").ok().out, "2\n");
    assert!(content(&sandbox, "c").starts_with("{\"id\":1,\"t\":[\"a\",\"b\"]}\n{\"id\":2}\n"));
}

#[test]
fn payloads_are_rows_columns_or_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", "id,text\n1,hello\n2,\n");
    let payload = |how: &str| {
        sandbox.firn(&format!("search build data.csv -o {how} --payload {how}")).ok();
        sandbox.firn(&format!("search query {how} --payload")).ok().out
    };
    assert_eq!(payload("row"), "{\"id\":1,\"text\":\"hello\"}\n{\"id\":2}\n");
    assert_eq!(payload("text"), "hello\n\n");
    assert_eq!(payload("none"), "\n\n");
    let run = sandbox.firn("search build data.csv -o d --payload nothing");
    run.fails(2, "column `nothing`: the payload's column is not in the row");
}

#[test]
fn bytes_are_texts_or_hexadecimal_digits() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "schema.toml",
        "[fields]\nid = \"i64 full\"\nb = \"bytes filterable stored multi\"\n",
    );
    sandbox.write("data.csv", "id,b\n1,00ff|7e\n2,\n3,C0\n");
    let options = "--schema schema.toml --payload none";
    sandbox.firn(&format!("search build data.csv -o c {options} --bytes hex")).ok();
    assert_eq!(sandbox.firn("search count c 'b = x\"00ff\" and b = x\"7e\"'").ok().out, "1\n");
    // Exports of both formats can be built again.
    for format in ["csv", "jsonl"] {
        let out = sandbox.firn(&format!("search scan c --format {format}")).ok().out;
        sandbox.write(&format!("again.{format}"), &out);
        let command = format!("search build again.{format} -o {format} {options} --bytes hex");
        sandbox.firn(&command).ok();
        let again = sandbox.firn(&format!("search scan {format} --format {format}")).ok().out;
        assert_eq!(again, out);
    }
    sandbox.firn(&format!("search build data.csv -o t {options}")).ok();
    assert_eq!(sandbox.firn("search count t 'b = \"00ff\"'").ok().out, "1\n");
    sandbox.write("bad.csv", "id,b\n1,0g\n");
    let run = sandbox.firn(&format!("search build bad.csv -o d {options} --bytes hex"));
    run.fails(2, "bad.csv:2: column `b`: `0g` is not hexadecimal digits, two per byte");
}

#[test]
fn a_float_does_not_round_whole_numbers() {
    let sandbox = Sandbox::new();
    sandbox.write("schema.toml", "[fields]\nn = \"f64 full\"\n");
    for (file, row) in [("a.csv", "n\n"), ("a.jsonl", "")] {
        let number = |n: &str| match row {
            "" => format!("{{\"n\":{n}}}\n"),
            _ => format!("{n}\n"),
        };
        for (n, code) in [
            ("9007199254740992", 0),
            ("-9007199254740993", 2),
            ("98765432109876543210", 2),
            ("98765432109876543210.0", 0),
        ] {
            sandbox.write(file, format!("{row}{}", number(n)));
            let run = sandbox.firn(&format!("search build {file} -o c --schema schema.toml"));
            match code {
                0 => {
                    run.ok();
                    std::fs::remove_dir_all(sandbox.path("c")).unwrap();
                }
                _ => drop(run.fails(2, "is not of type f64, which would round this whole number")),
            }
        }
    }
}

#[test]
fn an_existing_collection_is_changed_only_if_asked() {
    let sandbox = Sandbox::with_collection();
    sandbox.write("more.csv", "id,region,price,day,rating,ok\n9000,west,1,2024-01-01,1,true\n");
    sandbox.firn("search build more.csv -o c").fails(4, "there is a collection already");
    sandbox.firn("search build more.csv -o c --add --partition north").fails(4, "partition north");
    let count = || sandbox.firn("search count c").ok().out.trim().parse::<u64>().unwrap();
    assert_eq!(count(), ROWS);
    sandbox.firn("search build more.csv -o c --add --partition-by region").ok();
    assert_eq!(count(), ROWS + 1);
    sandbox.firn("search build more.csv -o c --update --partition north").ok();
    assert_eq!(count(), ROWS * 2 / 3 + 2);
    sandbox.firn("search build more.csv -o c --replace").ok();
    assert_eq!(count(), 1);
    std::fs::create_dir_all(sandbox.path("other")).unwrap();
    sandbox.write("other/file", "x");
    sandbox.firn("search build more.csv -o other").fails(4, "not empty");
    std::fs::create_dir_all(sandbox.path("index/log")).unwrap();
    sandbox.firn("search build more.csv -o index").fails(4, "not empty: it has `log`");
}

#[test]
fn documents_over_the_memory_limit_become_further_partitions() {
    let sandbox = Sandbox::new();
    let mut rows = "id,name\n".to_string();
    for id in 0..20_000 {
        rows += &format!("{id},a name of its own {id}\n");
    }
    sandbox.write("data.csv", rows);
    let built = sandbox.firn("search build data.csv -o c --memory 1M --json").ok().json();
    assert_eq!(built[0]["documents"], 20_000);
    let names = sandbox.firn("search partitions c --json").ok().json();
    assert!(names.len() > 1 && names[0]["name"] == "main" && names[1]["name"] == "main.2");
    sandbox.firn("search build data.csv -o whole").ok();
    assert_eq!(content(&sandbox, "c"), content(&sandbox, "whole"));
    // No temporary file is left.
    assert_eq!(std::fs::read_dir(&sandbox.0).unwrap().count(), 3);
}

#[test]
fn rows_after_the_sample_are_checked_against_the_inferred_schema() {
    let sandbox = Sandbox::new();
    let mut rows = "n\n".to_string() + &"1\n".repeat(100_001);
    rows += "\"\"\n1.5\n";
    sandbox.write("data.csv", &rows);
    let run = sandbox.firn("search build data.csv -o c").fails(2, "data.csv:100004: column `n`");
    assert!(run.err.contains("`1.5` is not of type i64") && run.err.contains("--schema"));
    // `--infer` reads all rows.
    let run = sandbox.firn("search build data.csv --infer").ok();
    assert!(run.out.contains("f64") && run.out.contains("nullable = true"), "{}", run.out);
    sandbox.write("schema.toml", run.out);
    sandbox.firn("search build data.csv -o c --schema schema.toml").ok();
    sandbox.firn("search build data.csv -o e --infer").ok();
    assert_eq!(sandbox.firn("search count e 'n > 1'").ok().out, "1\n");
    let full = "n\n".to_string() + &"1\n".repeat(100_001);
    sandbox.write("full.csv", &full);
    for (input, bytes) in [("full.csv", ""), ("-", full.as_str())] {
        let run = sandbox.firn_with(&format!("search build {input} --infer"), bytes.as_bytes());
        assert!(run.out.contains("i64") && !run.out.contains("nullable"), "{}", run.out);
    }
    assert_eq!(sandbox.firn("search count c 'n > 1'").ok().out, "1\n");

    let rows = "{\"n\":1}\n".repeat(100_001) + "{\"n\":1,\"m\":2}\n";
    sandbox.write("data.jsonl", rows);
    sandbox.firn("search build data.jsonl -o d").fails(2, "data.jsonl:100002: column `m`");
}

#[test]
fn order_nulls_and_separators_are_options() {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", "id;name;t\n2;b;x/y\n1;?;\n3;a;y\n".replace(';', ","));
    let schema = "[fields]\nid = \"i64 full\"\nname = \"string full nullable\"\n\
                  t = \"string filterable stored multi\"\n";
    sandbox.write("schema.toml", schema);
    let options = "--schema schema.toml --null ? --separator /";
    sandbox.firn(&format!("search build data.csv -o c {options} --order '-id'")).ok();
    let out = sandbox.firn("search scan c --separator /").ok().out;
    assert_eq!(out, "id,name,t\n3,a,y\n2,b,x/y\n1,,\n");
    let run = sandbox.firn(&format!("search build data.csv -o d {options} --order 'id, nam'"));
    assert!(run.fails(2, "`name`").err.contains("^^^"));
}

#[test]
fn a_truncated_archive_is_an_error_that_names_the_file() {
    let sandbox = Sandbox::new();
    let packed = gzip(&csv());
    sandbox.write("data.csv.gz", &packed[..packed.len() / 2]);
    sandbox.firn("search build data.csv.gz -o c").fails(6, "data.csv.gz: corrupt: the gzip data");
    let packed = zstd::encode_all(csv().as_bytes(), 1).unwrap();
    sandbox.write("data.csv.zst", &packed[..packed.len() - 1]);
    sandbox.firn("search build data.csv.zst -o c").fails(6, "data.csv.zst: corrupt: the zstd data");
    assert!(!sandbox.path("c").exists());
}
