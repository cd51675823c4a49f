//! The Management API.

pub mod allowed_networks;
pub mod audit;
pub mod credentials;
pub mod etags;
pub mod logo;
pub mod projects;
pub mod request_log;
pub mod tenant_limits;
pub mod tenants;
pub mod usage;
pub mod workspaces;
