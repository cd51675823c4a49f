//! A small mobile operator on real sockets: what tests, demonstrations and `ringtrue dev` have in place of a network.
//!
//! - [`smsc`]: a message centre that delivers what simulated handsets send, over SMPP, and misbehaves on request.
//!
//! It knows nothing of the service that it is used against, so that it cannot share a misunderstanding with it. Faults
//! are chosen message by message and are the same in every run with the same seed. Time is Tokio's, so a test can stop
//! it.
//!
//! `Debug` of numbers, texts and passwords tells their lengths only, and none of them is logged.

mod random;
pub mod smsc;
