//! Secure SNA and Discovery, from creation to redemption: an engine on a real database, operators that do as they are
//! told, and a clock that stands still.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod activity;
mod callbacks;
mod chain;
mod codes;
mod creation;
mod faults;
mod operators;
mod tickets;
mod world;
