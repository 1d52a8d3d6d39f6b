//! Everything durable: the run directory, models, and one way to write a file.

#[doc(hidden)] // for the program and the tests
pub mod archive;
#[doc(hidden)] // for the program and the tests
pub mod atomic;
#[doc(hidden)] // for the program and the tests
pub mod checkpoint;
pub mod run_dir;
pub(crate) mod slots;
#[doc(hidden)] // for the program and the tests
pub mod tensors;

#[doc(hidden)]
pub use atomic::{AtomicFile, write_atomically};
#[doc(hidden)]
pub use checkpoint::Checkpoints;
pub use run_dir::RunDir;
