//! Networks, address tables, number sources and webhooks.

pub mod address_tables;
pub mod ingress;
pub mod networks;
pub mod number_directory;
