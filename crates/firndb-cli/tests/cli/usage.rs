//! Help, suggestions, completions, and output to a closed pipe.

use super::Sandbox;

#[test]
fn help_version_and_completions_are_printed() {
    let sandbox = Sandbox::new();
    assert!(sandbox.firn("--version").ok().out.starts_with("firn 0."));
    assert!(sandbox.firn("search --help").ok().out.contains("facets"));
    sandbox.firn("").fails(2, "Usage: firn");
    for shell in ["bash", "zsh", "fish"] {
        assert!(sandbox.firn(&format!("completions {shell}")).ok().out.contains("facets"));
    }
}

#[test]
fn mistyped_commands_get_suggestions() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("flights")).unwrap();
    sandbox.firn("search flights").fails(2, "firn stats flights");
    sandbox.firn("flights").fails(2, "firn stats flights");
    sandbox.firn("serach query c").fails(2, "did you mean 'search'?");
    sandbox.firn("nonsense").fails(2, "no program `firn-nonsense`");
    sandbox.firn("query flights").fails(2, "firn search query ...");
    sandbox.firn("search qeury flights").fails(2, "'query'");
    sandbox.firn("search query nowhere").fails(3, "nowhere");
    sandbox.firn("search query flights").fails(3, "flights");
    let run = sandbox.firn("search facets --json").fails(2, "");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("--by"), "{error}");
}

#[test]
fn output_to_a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::with_collection();
    for line in ["export", "scan", "query --all", "query --all --json"] {
        let (command, options) = line.split_once(' ').unwrap_or((line, ""));
        sandbox.firn_unread(&format!("search {command} c {options}"));
    }
}

#[test]
fn files_are_inspected_and_verified() {
    let sandbox = Sandbox::with_collection();
    let partition = std::fs::read_dir(sandbox.path("c")).unwrap().flatten().find_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with("north.").then_some(name)
    });
    let partition = partition.unwrap();
    let seen = sandbox.firn(&format!("inspect c/{partition} --json")).ok().json();
    assert_eq!(seen[0]["kind"], "partition");
    let names: Vec<_> = seen[0]["items"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert!(names.iter().any(|name| *name == "price"), "{names:?}");
    assert!(sandbox.firn(&format!("inspect c/{partition}")).ok().out.contains("price"));
    let sections = sandbox.firn(&format!("inspect c/{partition} --sections")).ok().out;
    assert!(sections.contains("price: column"), "{sections}");
    assert_eq!(sandbox.firn("inspect c --json").ok().json()[0]["kind"], "partition set");
    sandbox.firn("inspect data.csv").fails(2, "not a file of FirnDB");

    let files = sandbox.firn("verify c --json").ok().json()[0]["files"].as_u64().unwrap();
    assert!(files >= 3, "{files}");
    assert!(sandbox.firn(&format!("verify c/{partition}")).ok().out.ends_with("all well\n"));

    // A stand-alone partition file is queried like a collection.
    assert_eq!(sandbox.firn(&format!("search count c/{partition}")).ok().out, "200\n");

    let path = sandbox.path("c").join(&partition);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let run = sandbox.firn("verify c").fails(6, "corrupt");
    assert!(run.err.contains(&partition), "{}", run.err);
}
