//! Parses the index of a folder on a web server. There is no standard for it, but most servers can
//! send a page of links, and some a list in JSON.
//!
//! ```text
//! ["a.json", "folder/"]                              a relay of FirnDB
//! [{"name": "a.json", "type": "file"}, ...]          nginx with autoindex_format json; Caddy
//! <a href="a.json">...</a> <a href="folder/">        all other servers: links to the entries
//! ```

use reqwest::Url;
use serde_json::Value as Json;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

/// Parses the index of the folder `url`, sorted. `None` if the page is neither JSON nor HTML.
pub(crate) fn parse(url: &Url, page: &str) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = match serde_json::from_str::<Vec<Json>>(page) {
        Ok(list) => list.iter().filter_map(of_json).collect(),
        Err(_) if page.trim_start().starts_with('<') => {
            links(page).filter_map(|link| of_link(url, link)).collect()
        }
        Err(_) => return None,
    };
    entries.sort_unstable();
    entries.dedup();
    Some(entries)
}

fn of_json(item: &Json) -> Option<Entry> {
    let name = item.as_str().or_else(|| item["name"].as_str())?;
    let mut entry = of_name(name)?;
    entry.is_folder |= item["type"] == "directory";
    Some(entry)
}

/// Formats an entry: `name`, or `name/` for a folder.
fn of_name(name: &str) -> Option<Entry> {
    let stem = name.strip_suffix('/').unwrap_or(name);
    let is_plain = !stem.is_empty() && !stem.starts_with('.') && !stem.contains(['/', '?', '#']);
    is_plain.then(|| Entry { name: stem.to_string(), is_folder: stem.len() < name.len() })
}

/// The entry that a link leads to, if it is in the folder.
fn of_link(url: &Url, link: &str) -> Option<Entry> {
    let to = url.join(link).ok()?;
    if to.origin() != url.origin() || to.query().is_some() {
        return None;
    }
    of_name(to.path().strip_prefix(url.path())?)
}

/// The values of `href` attributes.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(link, _)| link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(page: &str) -> Option<Vec<String>> {
        let url = Url::parse("http://host/base/docs/").unwrap();
        let shown =
            |entry: Entry| format!("{}{}", entry.name, if entry.is_folder { "/" } else { "" });
        parse(&url, page).map(|entries| entries.into_iter().map(shown).collect())
    }

    #[test]
    fn parses_the_indexes_of_common_servers() {
        let expected = Some(vec!["2.json".to_string(), "files/".to_string()]);
        for page in [
            r#"["2.json", "files/", "../", "a/b", ".hidden", ""]"#,
            r#"[{"name":"files","type":"directory","mtime":"x"},{"name":"2.json","type":"file"}]"#,
            r#"[{"name":"files/","is_dir":true},{"name":"2.json","is_dir":false}, 7]"#,
            "<html><a href=\"../\">../</a><a href=\"files/\">files/</a><a href=\"2.json\">2</a>",
            "<!DOCTYPE HTML><li><a href='?C=N;O=D'>Name</a> <a href='/base/'>Parent</a>
             <a href='/base/docs/files/'>f</a> <a href=\"http://host/base/docs/2.json\">2.json</a>
             <a href=\"http://other/base/docs/3.json\">3</a> <a href=x>unquoted</a> <a href=\"",
        ] {
            assert_eq!(names(page), expected, "{page}");
        }
        assert_eq!(names("<html></html>"), Some(Vec::new()));
        assert_eq!(names("[]"), Some(Vec::new()));
        assert_eq!(names("not found"), None);
        assert_eq!(names("{}"), None);
    }
}
