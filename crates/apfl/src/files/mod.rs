//! Files: atomic and private writes, locks of directories, tensors, slots and archives.

#[doc(hidden)] // for the program and the tests
pub mod archive;
#[doc(hidden)] // for the program and the tests
pub mod atomic;
#[doc(hidden)] // for the program and the tests
pub mod lock;
pub(crate) mod private;
pub(crate) mod slots;
#[doc(hidden)] // for the program and the tests
pub mod tensors;
mod time;

pub use atomic::{AtomicFile, write_atomically};
#[doc(hidden)]
pub use lock::DirectoryLock;
#[doc(hidden)]
pub use private::create_directory as create_private_directory;
#[doc(hidden)]
pub use time::UtcTime;
