//! On which machine each rank of a group runs.

use rushlight_core::{Error, Result};

/// The most ranks of a group.
pub const MOST_RANKS: usize = 1024;

/// The machine of each rank, as seen from one of the machines.
#[derive(Clone)]
pub struct Places {
    machine_of: Vec<usize>,
    /// The ranks of each machine, in their order.
    members: Vec<Vec<usize>>,
    /// The place of each rank among those of its machine.
    seats: Vec<usize>,
    own: usize,
}

impl Places {
    /// `machine_of` has the number of a machine for each rank. Every number below the largest occurs.
    pub fn new(machine_of: Vec<usize>, own: usize) -> Result<Places> {
        let ranks = machine_of.len();
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(Error::value(format!("{ranks} ranks: a group has 1 to {MOST_RANKS} ranks")));
        }
        let machines = machine_of.iter().max().map_or(0, |most| most + 1);
        let mut members = vec![Vec::new(); machines.min(ranks)];
        let mut seats = Vec::with_capacity(ranks);
        for (rank, &machine) in machine_of.iter().enumerate() {
            let Some(present) = members.get_mut(machine) else {
                return Err(Error::value(format!("machine {machine} of {ranks} ranks")));
            };
            seats.push(present.len());
            present.push(rank);
        }
        if own >= members.len() || members.iter().any(Vec::is_empty) {
            return Err(Error::value(format!("machine {own} of {machines} has no ranks")));
        }
        Ok(Places { machine_of, members, seats, own })
    }

    pub fn ranks(&self) -> usize {
        self.machine_of.len()
    }

    pub fn machines(&self) -> usize {
        self.members.len()
    }

    /// Whether there is more than one machine.
    pub fn spans(&self) -> bool {
        self.members.len() > 1
    }

    pub fn machine_of(&self, rank: usize) -> usize {
        self.machine_of[rank]
    }

    pub fn own_machine(&self) -> usize {
        self.own
    }

    pub fn members(&self, machine: usize) -> &[usize] {
        &self.members[machine]
    }

    /// The ranks of this machine.
    pub fn local(&self) -> &[usize] {
        &self.members[self.own]
    }

    /// The place of a rank among those of its machine.
    pub fn seat(&self, rank: usize) -> usize {
        self.seats[rank]
    }

    pub fn is_local(&self, rank: usize) -> bool {
        self.machine_of[rank] == self.own
    }

    /// The ranks of other machines.
    pub fn remote(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ranks()).filter(|&rank| !self.is_local(rank))
    }

    /// How many rings have an end on this machine.
    pub fn rings(&self) -> usize {
        self.rings_of(self.local().len())
    }

    /// As `rings`, of the machine that has most. All machines agree on it.
    pub fn most_rings(&self) -> usize {
        self.rings_of(self.members.iter().map(Vec::len).max().unwrap_or(1))
    }

    /// How many rings have an end on a machine with so many ranks.
    fn rings_of(&self, local: usize) -> usize {
        let directions = if self.spans() { 2 } else { 1 };
        directions * local * self.ranks()
    }

    /// The number of the ring from one rank to another, one of which is on this machine.
    pub fn ring(&self, from: usize, to: usize) -> usize {
        let ranks = self.ranks();
        if self.is_local(from) {
            self.seats[from] * ranks + to
        } else {
            (self.local().len() + self.seats[to]) * ranks + from
        }
    }
}
