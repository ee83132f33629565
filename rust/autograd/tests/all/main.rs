//! Tests of the engine with a few toy operators over float64.

mod accumulation;
mod custom;
mod depth;
mod fork;
mod graph;
mod hooks;
mod inplace;
mod saving;
mod toy;
