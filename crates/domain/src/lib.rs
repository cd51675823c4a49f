//! Domain rules as pure values and functions: no I/O, no async, no serialization, no clock.
//!
//! Times and random bytes are passed as arguments, so that every rule can be tested with a table of cases.

pub mod account;
pub mod activity;
pub mod audit;
pub mod callback;
pub mod camara;
pub mod csv;
pub mod date_time;
mod display_as_str;
pub mod eligibility;
pub mod id;
pub mod key_schedule;
pub mod lifecycle;
pub mod login_throttle;
pub mod network;
pub mod page;
pub mod parse_error;
pub mod phone;
pub mod product;
pub mod region;
pub mod reverse_sms;
pub mod search;
pub mod sign_in;
pub mod silent;
pub mod sim_swap;
pub mod tenancy;
pub mod timestamp;
pub mod verification;
pub mod web_url;
