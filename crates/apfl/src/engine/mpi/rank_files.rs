//! The files of a rank: its scratch file and its part of an archive.

use std::path::PathBuf;

use super::cluster::Cluster;
use super::placement::Placement;
use crate::algorithm::Algorithm;
use crate::clients::{Clients, Request, Response, StateHome};
use crate::error::{Result, at};

/// Returns the home of client states with a rank's own scratch file.
pub fn home_of(home: &StateHome, cluster: Cluster) -> StateHome {
    match home {
        StateHome::Ram => StateHome::Ram,
        StateHome::Disk { file, budget } => {
            let mut name = file.clone().into_os_string();
            name.push(format!("-rank-{}", cluster.rank));
            StateHome::Disk {
                file: PathBuf::from(name),
                budget: *budget,
            }
        }
    }
}

/// Removes the scratch files of all ranks of a killed job.
pub fn clear(home: &StateHome) {
    let StateHome::Disk { file, .. } = home else {
        return;
    };
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else {
        return;
    };
    let name = format!("{}-rank-", name.to_string_lossy());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&name) {
            let _ = std::fs::remove_file(entry.path()); // a file that stays only takes space
        }
    }
}

/// Handles a request that a process handles once, for this rank's clients of a list. Returns
/// `None` if it has none of them.
pub fn handle<A: Algorithm>(
    clients: &Clients<A>,
    placement: &Placement,
    rank: usize,
    request: &Request<A::Broadcast>,
    list: &[usize],
) -> Result<Option<Response<A::Update>>> {
    let mine = placement.of(rank, list);
    if mine.is_empty() {
        return Ok(None);
    }
    let response = match request {
        Request::Save {
            archive,
            name,
            states,
        } => {
            // A network file system may not show yet a directory that another host created.
            std::fs::create_dir_all(&archive.0).map_err(at(&archive.0, "create"))?;
            let own = Request::Save {
                archive: archive.clone(),
                name: format!("{name}-rank-{rank}"),
                states: *states,
            };
            clients.handle_together(&own, &mine)
        }
        other => clients.handle_together(other, &mine),
    };
    response.map(Some)
}
