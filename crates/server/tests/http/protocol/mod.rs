//! HTTP, JSON, lists and documents: what all endpoints have in common.

pub mod document;
pub mod framing;
pub mod health;
pub mod json;
pub mod landing;
pub mod metadata;
pub mod middleware;
pub mod minimal_client;
pub mod paging;
pub mod proxy_protocol;
pub mod random_input;
pub mod rate_limits;
pub mod regions;
pub mod responses;
pub mod routes;
pub mod search;
pub mod search_limit;
pub mod sizes;
pub mod slow_clients;
