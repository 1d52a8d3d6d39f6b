//! Everything durable: the run directory, models, and one way to write a file.

#[doc(hidden)] // for the program and the tests
pub mod archive;
#[doc(hidden)] // for the program and the tests
pub mod atomic;
#[doc(hidden)] // for the program and the tests
pub mod checkpoint;
#[doc(hidden)] // for the program and the tests
pub mod lock;
pub(crate) mod manifest;
pub(crate) mod private;
pub(crate) mod releases;
pub mod run_dir;
pub(crate) mod slots;
#[doc(hidden)] // for the program and the tests
pub mod tensors;
mod time;

pub use atomic::{AtomicFile, write_atomically};
#[doc(hidden)]
pub use checkpoint::Checkpoints;
#[doc(hidden)]
pub use lock::DirectoryLock;
#[doc(hidden)]
pub use manifest::Identity;
#[doc(hidden)]
#[doc(hidden)]
pub use private::create_directory as create_private_directory;
pub use run_dir::RunDir;
#[doc(hidden)]
pub use time::UtcTime;
