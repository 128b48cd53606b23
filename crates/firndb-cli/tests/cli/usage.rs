//! Help, suggestions, completions, and output to a closed pipe.

use super::Place;

#[test]
fn help_version_and_completions_are_printed() {
    let place = Place::new();
    assert!(place.firn("--version").ok().out.starts_with("firn 0."));
    assert!(place.firn("search --help").ok().out.contains("facets"));
    place.firn("").fails(2, "Usage: firn");
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.firn(&format!("completions {shell}")).ok().out.contains("facets"));
    }
}

#[test]
fn mistyped_commands_get_suggestions() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("flights")).unwrap();
    place.firn("search flights").fails(2, "firn search query flights");
    place.firn("query flights").fails(2, "firn search query ...");
    place.firn("search qeury flights").fails(2, "'query'");
    place.firn("search query nowhere").fails(3, "nowhere");
    place.firn("search query flights").fails(3, "flights");
    let run = place.firn("search facets --json").fails(2, "");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("--by"), "{error}");
}

#[test]
fn output_to_a_closed_pipe_is_no_error() {
    let place = Place::with_collection();
    for line in ["search export c", "search query c --all", "search query c --all --json"] {
        place.firn_unread(line);
    }
}

#[test]
fn files_are_inspected_and_verified() {
    let place = Place::with_collection();
    let partition = std::fs::read_dir(place.path("c")).unwrap().flatten().find_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with("north.").then_some(name)
    });
    let partition = partition.unwrap();
    let seen = place.firn(&format!("inspect c/{partition} --json")).ok().json();
    assert_eq!(seen[0]["kind"], "partition");
    let names: Vec<_> = seen[0]["items"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert!(names.iter().any(|name| *name == "price"), "{names:?}");
    assert!(place.firn(&format!("inspect c/{partition}")).ok().out.contains("price"));
    let sections = place.firn(&format!("inspect c/{partition} --sections")).ok().out;
    assert!(sections.contains("price: column"), "{sections}");
    place.firn("inspect c").fails(2, "firn search stats");
    place.firn("inspect data.csv").fails(6, "data.csv");

    let files = place.firn("verify c --json").ok().json()[0]["files"].as_u64().unwrap();
    assert!(files >= 3, "{files}");
    assert!(place.firn(&format!("verify c/{partition}")).ok().out.ends_with("all well\n"));

    // A stand-alone partition file is queried like a collection.
    assert_eq!(place.firn(&format!("search count c/{partition}")).ok().out, "200\n");

    let path = place.path("c").join(&partition);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let run = place.firn("verify c").fails(6, "corrupt");
    assert!(run.err.contains(&partition), "{}", run.err);
}
