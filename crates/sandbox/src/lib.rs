//! Simulated mobile operator on real sockets, for tests, demonstrations and `ringtrue dev`.
//!
//! - [`smsc`]: SMSC that delivers SMS of simulated handsets over SMPP, with scripted faults.
//! - [`camara`]: OpenID provider and the CAMARA APIs Number Verification and SIM Swap, for simulated SIMs.
//! - [`directory`]: number directory, queried by ENUM and as an HLR over HTTP.
//! - [`sim_registry`]: SIM swaps requested by users.
//!
//! It shares no code with the service, so that it cannot share its misunderstandings. Faults are set for each message
//! or response, and are deterministic for a seed. Timers use Tokio's clock and dates an injected clock, so that tests
//! can control both.
//!
//! `Debug` masks numbers, texts and passwords; none of them is logged.

mod accept;
pub mod camara;
pub mod directory;
mod random;
pub mod sim_registry;
pub mod smsc;
