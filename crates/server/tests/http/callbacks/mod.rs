//! Callbacks: delivery, resends and URLs.

pub mod delivery;
pub mod resends;
pub mod urls;
