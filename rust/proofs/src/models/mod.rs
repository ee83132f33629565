//! The models, by subject.

mod arenas;
mod counted;
mod forks;
mod locks;
mod loops;
mod number;
mod storages;
mod tasks;

use crate::model::Model;

pub const ALL: &[&[Model]] =
    &[forks::MODELS, loops::MODELS, tasks::MODELS, arenas::MODELS, storages::MODELS, counted::MODELS, locks::MODELS];
