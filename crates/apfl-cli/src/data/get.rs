//! `apfl data get`: fetches a data set, and believes nothing but its checksums.

use std::fs;
use std::path::Path;

use apfl::data::folder::data_directory;
use apfl::error::{Error, Result};
use apfl::settings::nearest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::catalogue::{CATALOGUE, Entry, Form, Way};
use super::checksum::{io, sweep};
use super::ways;
use crate::args;
use crate::output::print;

/// Tries every way until all files are there and right.
pub fn get(args: &args::Get) -> Result<()> {
    let entry = Entry::named(&args.name).ok_or_else(|| unknown(&args.name))?;
    let folder = data_directory().join(entry.name);
    if entry.files.is_empty() || (entry.ways.is_empty() && args.from.is_none()) {
        return Err(Error::data(format!(
            "{}: {} ({})",
            entry.name,
            entry.otherwise,
            folder.display()
        )));
    }
    fs::create_dir_all(&folder).map_err(io(&folder, "create"))?;
    let fetched = fetch(args, entry, &folder);
    if fetched.is_err() {
        let _ = fs::remove_dir(&folder); // where nothing is in it
    }
    fetched
}

/// Tries every way into a folder that is there.
fn fetch(args: &args::Get, entry: &'static Entry, folder: &Path) -> Result<()> {
    let names: Vec<&str> = entry
        .files
        .iter()
        .flat_map(|f| f.forms)
        .map(|f| f.name)
        .collect();
    sweep(folder, &names);
    let progress = Progress::new(args.quiet);
    if ways::missing(entry, folder)?.is_empty() {
        return finished(entry, folder, args.quiet, "was there already");
    }
    let attempts: Vec<Box<dyn Fn() -> ways::Outcome + '_>> = match &args.from {
        Some(from) => vec![Box::new(|| {
            ways::from_folder(from, entry, folder, &progress)
        })],
        None => attempts(args, entry, folder, &progress),
    };
    let mut reasons = Vec::new();
    for attempt in attempts {
        match attempt()? {
            Ok(()) => {
                progress.clear();
                return finished(entry, folder, args.quiet, "is whole");
            }
            Err(reason) => {
                if args.from.is_none() {
                    progress.say(&format!("{reason}; trying the next way"));
                }
                reasons.push(reason);
            }
        }
    }
    progress.clear();
    Err(Error::data(format!(
        "{} could not be fetched; nothing half-written was left.\n  {}\n  \
         --from DIR copies it from a folder",
        entry.name,
        reasons.join("\n  ")
    )))
}

fn attempts<'a>(
    args: &'a args::Get,
    entry: &'static Entry,
    folder: &'a Path,
    progress: &'a Progress,
) -> Vec<Box<dyn Fn() -> ways::Outcome + 'a>> {
    type Attempt<'a> = Box<dyn Fn() -> ways::Outcome + 'a>;
    if !args.mirror.is_empty() {
        let given = |url: &'a String| -> Attempt<'a> {
            if url.ends_with(".tar.gz") {
                Box::new(move || ways::from_web_archive(url, entry, folder, progress))
            } else {
                Box::new(move || ways::from_web_folder(url, entry, folder, progress))
            }
        };
        return args.mirror.iter().map(given).collect();
    }
    let built_in = |way: &'static Way| -> Attempt<'a> {
        Box::new(move || match way {
            Way::Folder(url) => ways::from_web_folder(url, entry, folder, progress),
            Way::Archive(url) => ways::from_web_archive(url, entry, folder, progress),
            Way::Npm(npm) => ways::from_npm(npm, entry, folder, progress),
        })
    };
    entry.ways.iter().map(built_in).collect()
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

fn finished(entry: &Entry, folder: &Path, quiet: bool, how: &str) -> Result<()> {
    if quiet {
        return Ok(());
    }
    let mut text = format!("{} {how}: {}\n", entry.name, folder.display());
    for file in entry.files {
        let here = file
            .forms
            .iter()
            .find(|form| folder.join(form.name).is_file());
        if let Some(form) = here {
            text.push_str(&format!("  {}  {}\n", form.md5, form.name));
        }
    }
    print(&text)
}

/// A bar of bytes on stderr, where that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr() // hides itself where it is not a terminal
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let template = "{msg}  {bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
        let style = ProgressStyle::with_template(template).expect("a template of ours");
        bar.set_style(style.progress_chars("━╸ "));
        Self { bar, quiet }
    }

    /// A file of that many bytes begins.
    pub fn start(&self, name: &str, bytes: u64) {
        self.bar.set_message(name.to_string());
        self.bar.set_length(bytes);
        self.bar.set_position(0);
        self.bar.reset_eta();
    }

    /// That many bytes more have come.
    pub fn more(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// A file is there and right.
    pub fn stored(&self, form: &Form) {
        self.say(&format!("{}: right", form.name));
    }

    /// A line above the bar, also where there is no bar.
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
