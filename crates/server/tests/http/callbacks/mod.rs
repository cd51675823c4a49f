//! Callbacks: delivery, resends and URLs.

pub mod delivery;
mod list;
pub mod resends;
pub mod urls;
