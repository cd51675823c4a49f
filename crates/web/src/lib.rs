//! Common parts of the HTTP crates: state, request context, routes, middleware, bodies, parameters and problems.
//!
//! The API and the console are crates on top of this one, and do not depend on each other. Their handlers parse input,
//! call a use case of the engine and render the result. The [`middleware`] renders errors.
//!
//! This crate deliberately contains no handlers, configuration, database access or listeners.

pub mod app;
pub mod assets;
pub mod authorization_forwarder;
pub mod body;
pub mod camara_error;
mod detach_on_drop;
pub mod development;
pub mod error_catalog;
pub mod metrics;
pub mod middleware;
pub mod multipart;
pub mod parameters;
pub mod problem;
pub mod rate_limit;
pub mod request_context;
mod request_limits;
pub mod response;
pub mod routes;
