//! `apfl data list`: lists the data sets.

use std::path::Path;

use apfl::data::folder::data_directory;
use apfl::error::Result;
use serde::Serialize;

use super::catalogue::{CATALOGUE, Entry};
use crate::args;
use crate::output::{bytes, columns, print, print_json};

#[derive(Serialize)]
struct Listing {
    name: &'static str,
    what: &'static str,
    folder: String,
    bytes: u64,
    licence: &'static str,
    here: &'static str,
}

/// Prints the data sets and whether they are on this machine, judged by file sizes; `apfl data
/// get` verifies checksums.
pub fn list(args: &args::List) -> Result<()> {
    let directory = data_directory();
    let listing = |entry: &'static Entry| {
        let folder = directory.join(entry.name);
        Listing {
            name: entry.name,
            what: entry.what,
            bytes: entry.bytes(),
            licence: entry.licence,
            here: here(entry, &folder),
            folder: folder.display().to_string(),
        }
    };
    let listings: Vec<Listing> = CATALOGUE.iter().map(listing).collect();
    if args.json {
        return print_json(&serde_json::json!({
            "directory": directory.display().to_string(),
            "data": listings,
        }));
    }
    let mut rows = vec![["name", "here", "size"].map(String::from).to_vec()];
    for listing in &listings {
        let size = match listing.bytes {
            0 => "–".into(),
            n => bytes(n as f64),
        };
        rows.push(vec![listing.name.into(), listing.here.into(), size]);
    }
    let mut text = format!("data directory: {} (APFL_DATA)\n\n", directory.display());
    let table = columns(&rows);
    let more =
        std::iter::once(("what", "licence")).chain(listings.iter().map(|l| (l.what, l.licence)));
    let width = listings
        .iter()
        .map(|l| l.what.chars().count())
        .max()
        .unwrap_or(0);
    for (row, (what, licence)) in table.lines().zip(more) {
        text.push_str(&format!("{row}  {what:<width$}  {licence}\n"));
    }
    text.push_str(
        "\n`apfl data get NAME` fetches one; synthetic and multisite need no files; idx and table read your own.\n",
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
    let complete = entry
        .files
        .iter()
        .filter(|file| file.forms.iter().any(|f| size(f.name) == Some(f.bytes)))
        .count();
    match complete {
        0 => "no",
        n if n == entry.files.len() => "yes",
        _ => "partly",
    }
}
