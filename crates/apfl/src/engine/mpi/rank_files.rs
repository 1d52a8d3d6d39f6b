//! A rank's own files, and its share of what is streamed to and from archives: what leader
//! and others do alike.

use std::path::PathBuf;

use super::cluster::Cluster;
use super::placement::Placement;
use crate::algorithm::Algorithm;
use crate::clients::{Clients, MemoryHome};
use crate::error::{Result, at};
use crate::store::archive::{MemoryArchive, Written};

/// A rank's own scratch file.
pub fn home_of(home: &MemoryHome, cluster: Cluster) -> MemoryHome {
    match home {
        MemoryHome::Ram => MemoryHome::Ram,
        MemoryHome::Disk { file, budget } => {
            let mut name = file.clone().into_os_string();
            name.push(format!("-rank-{}", cluster.rank));
            MemoryHome::Disk {
                file: PathBuf::from(name),
                budget: *budget,
            }
        }
    }
}

/// Removes the scratch files that a job left that was killed, with as many ranks as it had.
pub fn clear(home: &MemoryHome) {
    let MemoryHome::Disk { file, .. } = home else {
        return;
    };
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
        return;
    };
    let name = format!("{}-rank-", name.to_string_lossy());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&name) {
            let _ = std::fs::remove_file(entry.path()); // in nobody's way but the disk's
        }
    }
}

/// Writes a rank's share of some clients' memories; `None` where it has none of them.
pub fn save<A: Algorithm>(
    clients: &Clients<A>,
    placement: &Placement,
    rank: usize,
    (archive, name): (&dyn MemoryArchive, &str),
    list: &[usize],
) -> Result<Option<(Written, Vec<usize>)>> {
    let mine = own_of(placement, rank, list);
    if mine.is_empty() {
        return Ok(None);
    }
    if let Some(directory) = archive.directory() {
        // A file system over a network may not show yet what another machine has made.
        std::fs::create_dir_all(directory).map_err(at(directory, "create"))?;
    }
    let part = clients.save(archive, &format!("{name}-rank-{rank}"), &mine)?;
    Ok(Some((part, mine)))
}

/// Gives a rank's own clients of a list their memories out of an archive.
pub fn restore<A: Algorithm>(
    clients: &Clients<A>,
    placement: &Placement,
    rank: usize,
    (archive, part): (&dyn MemoryArchive, &str),
    list: &[usize],
) -> Result<()> {
    match &own_of(placement, rank, list)[..] {
        [] => Ok(()),
        mine => clients.restore_all(archive, part, mine),
    }
}

fn own_of(placement: &Placement, rank: usize, list: &[usize]) -> Vec<usize> {
    let here = |client: &usize| placement.rank(*client) == rank;
    list.iter().copied().filter(here).collect()
}
