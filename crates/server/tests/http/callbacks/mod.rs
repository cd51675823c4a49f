//! Callbacks: delivery, resends, streams and URLs.

pub mod delivery;
mod list;
pub mod resends;
mod stream;
pub mod urls;
