//! The settings of a companion.

use std::time::Duration;

/// What a companion reads when it starts.
pub struct Settings {
    /// Where the hub listens, as the other machines may reach it.
    pub addresses: Vec<(String, u16)>,
    /// What shows the hub that a connection belongs to the group.
    pub secret: String,
    /// A name that no other group has.
    pub name: String,
    /// The path of the library for MPI.
    pub library: String,
    /// How long the other machines may take to come.
    pub timeout: Duration,
}
