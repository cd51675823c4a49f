//! A small mobile operator on real sockets: what tests, demonstrations and `ringtrue dev` have in place of a network.
//!
//! - [`smsc`]: a message centre that delivers what simulated handsets send, over SMPP, and misbehaves on request.
//! - [`camara`]: an OpenID provider with the APIs Number Verification and SIM Swap, over simulated SIMs.
//! - [`directory`]: a table of subscribers that tells their networks, by ENUM and as an HLR over HTTP.
//! - [`sim_drawer`]: SIMs that were swapped on purpose.
//!
//! It knows nothing of the service that it is used against, so that it cannot share a misunderstanding with it. Faults
//! are chosen message by message, or answer by answer, and are the same in every run with the same seed. Time is Tokio's,
//! and dates are by a clock that is handed in, so a test can stop both.
//!
//! `Debug` of numbers, texts and passwords is masked, and none of them is logged.

pub mod camara;
pub mod directory;
mod doorway;
mod random;
pub mod sim_drawer;
pub mod smsc;
