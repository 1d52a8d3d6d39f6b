//! `apfl data list`

use std::path::Path;

use apfl::data::folder::data_directory;
use apfl::error::Result;
use serde::Serialize;

use super::catalogue::{CATALOGUE, Entry};
use crate::args;
use crate::output::{bytes, columns, print, print_json};

#[derive(Serialize)]
struct Line {
    name: &'static str,
    what: &'static str,
    folder: String,
    bytes: u64,
    licence: &'static str,
    here: &'static str,
}

/// Prints what data there is and whether it is here. Sizes are looked at, not
/// checksums: `apfl data get` does that.
pub fn list(args: &args::List) -> Result<()> {
    let directory = data_directory();
    let line = |entry: &'static Entry| {
        let folder = directory.join(entry.name);
        Line {
            name: entry.name,
            what: entry.what,
            bytes: entry.bytes(),
            licence: entry.licence,
            here: here(entry, &folder),
            folder: folder.display().to_string(),
        }
    };
    let lines: Vec<Line> = CATALOGUE.iter().map(line).collect();
    if args.json {
        return print_json(&serde_json::json!({
            "directory": directory.display().to_string(),
            "data": lines,
        }));
    }
    let mut rows = vec![["name", "here", "size"].map(String::from).to_vec()];
    for line in &lines {
        let size = match line.bytes {
            0 => "–".into(),
            n => bytes(n as f64),
        };
        rows.push(vec![line.name.into(), line.here.into(), size]);
    }
    let mut text = format!("data directory: {} (APFL_DATA)\n\n", directory.display());
    let table = columns(&rows);
    let more =
        std::iter::once(("what", "licence")).chain(lines.iter().map(|l| (l.what, l.licence)));
    let width = lines
        .iter()
        .map(|l| l.what.chars().count())
        .max()
        .unwrap_or(0);
    for (row, (what, licence)) in table.lines().zip(more) {
        text.push_str(&format!("{row}  {what:<width$}  {licence}\n"));
    }
    text.push_str(
        "\n`apfl data get NAME` fetches; synthetic needs no files; idx and table read your own.\n",
    );
    print(&text)
}

fn here(entry: &Entry, folder: &Path) -> &'static str {
    if entry.files.is_empty() {
        let has = |part: &str| folder.join(part).is_dir();
        return if has("train") && has("test") {
            "yes"
        } else {
            "no"
        };
    }
    let size = |name: &str| std::fs::metadata(folder.join(name)).map(|m| m.len()).ok();
    let right = entry
        .files
        .iter()
        .filter(|file| file.forms.iter().any(|f| size(f.name) == Some(f.bytes)))
        .count();
    match right {
        0 => "no",
        n if n == entry.files.len() => "yes",
        _ => "partly",
    }
}
