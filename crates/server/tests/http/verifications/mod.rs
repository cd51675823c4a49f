//! Tests verifications and their hosted page.

pub mod api;
pub mod control;
pub mod page;
pub mod wallet;
