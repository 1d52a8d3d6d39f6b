//! Every reader on small files that the test makes: what is right is read, what is
//! wrong is refused with words that name the file and the value.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use apfl::data::{Dataset, Task};
use apfl::spec::Spec;
use flate2::Compression;
use flate2::write::GzEncoder;

mod assignment;
mod idx_files;
mod leaf;
mod published;

fn idx(code: u8, shape: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, code, shape.len() as u8];
    shape.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
    bytes.extend(values);
    bytes
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn load(dir: &Path, data: &str) -> Result<Arc<dyn Dataset>, String> {
    let spec = format!("[data]\n{data}").replace("DIR", &dir.display().to_string());
    let plan = Spec::parse(&spec).unwrap().plan();
    plan.and_then(|plan| plan.data.load())
        .map_err(|e| e.to_string())
}

fn error(dir: &Path, data: &str, expected: &str) {
    match load(dir, data) {
        Ok(_) => panic!("{data}: read without an error"),
        Err(said) => assert!(said.contains(expected), "{said}"),
    }
}

/// 20 images of 2×2 with the labels 0, 1, 0, 1, …; image k has the pixels k, 2k, 3k, 4k.
fn small_idx(dir: &Path) {
    let pixels: Vec<u8> = (0..20).flat_map(|k| [k, 2 * k, 3 * k, 4 * k]).collect();
    let labels: Vec<u8> = (0..20).map(|k| k % 2).collect();
    fs::write(dir.join("images"), idx(8, &[20, 2, 2], &pixels)).unwrap();
    fs::write(dir.join("labels.gz"), gzipped(&idx(8, &[20], &labels))).unwrap();
}

const IDX: &str = "kind = 'idx'\nimages = 'DIR/images'\nlabels = 'DIR/labels.gz'\n";

fn task_of(data: &dyn Dataset) -> Vec<String> {
    match &data.schema().task {
        Task::Classification { classes } => classes.clone(),
        Task::Regression => Vec::new(),
    }
}
