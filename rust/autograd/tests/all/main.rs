//! The engine on a handful of toy operators over float64.

mod depth;
mod fork;
mod graph;
mod hooks;
mod inplace;
mod saving;
mod toy;
