//! Everything durable: the run directory, models, and one way to write a file.

pub mod archive;
pub mod atomic;
pub mod checkpoint;
pub mod run_dir;
pub mod slots;
pub mod tensors;

pub use atomic::{AtomicFile, write_atomically};
pub use checkpoint::Checkpoints;
pub use run_dir::RunDir;
