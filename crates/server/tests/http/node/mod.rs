//! Nodes: databases, clocks, keys, retention and shutdown.

pub mod at_rest;
pub mod busy_database;
pub mod clocks;
pub mod keys;
pub mod nodes;
pub mod outage;
pub mod privacy;
pub mod restores;
pub mod retention;
pub mod shutdown;
