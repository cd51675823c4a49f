//! Reverse SMS, SIM Swap and Eligibility, and what all checks have in common.

pub mod checks;
pub mod eligibility;
pub mod going_live;
pub mod idempotency;
pub mod race;
pub mod reverse_sms;
pub mod scripted_sim_swap;
pub mod sim_swap;
pub mod sim_swap_operator;
