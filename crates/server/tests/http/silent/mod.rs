//! Secure SNA and Discovery, with devices and operators.

pub mod checks;
pub mod device;
pub mod enrichment_gateway;
pub mod header_enrichment;
pub mod requests;
pub mod scripted_operator;
pub mod silent_client;
pub mod wallet;
