//! Finds the network of a number or a device, the products that it supports, and the connector to its operator.

pub mod eligibility;
pub mod networks;
pub mod number_lookup;
pub mod operator_access;
