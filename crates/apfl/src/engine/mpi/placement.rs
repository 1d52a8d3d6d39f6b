//! The placement of clients on ranks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::data::Dataset;
use crate::local_client::LocalTraining;

/// The rank of every client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    ranks: Vec<u32>,
}

impl Placement {
    /// Places every client on the rank with the least load so far, the most expensive client
    /// first. A client's cost is the number of examples it sees in a round: those of its local
    /// steps, and all of its examples once more for scoring. The result is the same on every rank.
    pub fn new(dataset: &dyn Dataset, local_training: &LocalTraining, ranks: usize) -> Self {
        let cost = |client| {
            let (train, valid) = dataset.whole_sizes(client);
            let batch = local_training.batch.map_or(train, |batch| batch.min(train));
            local_training
                .steps(train)
                .saturating_mul(batch as u64)
                .saturating_add((train + valid) as u64)
        };
        Self::by_cost((0..dataset.clients()).map(cost).collect(), ranks)
    }

    fn by_cost(costs: Vec<u64>, ranks: usize) -> Self {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|client| (Reverse(costs[*client]), *client));
        let mut free: BinaryHeap<Reverse<(u64, u32)>> =
            (0..ranks as u32).map(|rank| Reverse((0, rank))).collect();
        let mut placed = vec![0; costs.len()];
        for client in order {
            let Reverse((load, rank)) = free.pop().expect("at least one rank");
            placed[client] = rank;
            free.push(Reverse((load.saturating_add(costs[client]), rank)));
        }
        Self { ranks: placed }
    }

    /// Returns the rank of a client.
    pub fn rank(&self, client: usize) -> usize {
        self.ranks[client] as usize
    }

    /// Returns the clients of a list that are on a rank.
    pub fn of(&self, rank: usize, clients: &[usize]) -> Vec<usize> {
        let on_rank = |client: &usize| self.rank(*client) == rank;
        clients.iter().copied().filter(on_rank).collect()
    }

    /// Returns the positions in a list of the clients on a rank.
    pub fn positions(&self, rank: usize, clients: &[usize]) -> Vec<usize> {
        let on_rank = |position: &usize| self.rank(clients[*position]) == rank;
        (0..clients.len()).filter(on_rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_clients_go_round_and_large_ones_apart() {
        let equal = Placement::by_cost(vec![5; 7], 3);
        assert_eq!(equal.ranks, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(equal.positions(1, &[1, 2, 4, 5]), [0, 2]);
        // 9 | 8 | 7, then 3 to the 7, 2 to the 8, 1 to the 9: ten each.
        let uneven = Placement::by_cost(vec![1, 9, 2, 8, 3, 7], 3);
        assert_eq!(uneven.ranks, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn more_ranks_than_clients_leave_some_idle() {
        assert_eq!(Placement::by_cost(vec![1, 1], 5).ranks, [0, 1]);
    }
}
