//! What the service says about itself: the API document, the reference made from it, a page for each error, and the
//! one for people who open the URL of a check.
//!
//! Everything but that last one is rendered once, and kept as text. The pages need no script, hold no inline
//! style and load nothing but the [`ASSETS`], so they work under [`CONTENT_SECURITY_POLICY`] and without a network.
//!
//! Deliberately absent: the words about each error. They belong to the catalogue of problems, which hands them over as
//! [`error_page::ErrorEntry`]. And any knowledge of axum: the routes are made elsewhere.

mod curl;
pub mod device_page;
mod document;
pub mod error_page;
mod html;
mod json;
pub mod openapi;
pub mod reference;
mod responses;
mod schema;

/// For every page of this module.
pub const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The content type of every page of this module.
pub const HTML: &str = "text/html; charset=utf-8";

/// A file that the pages load.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: &'static str,
}

/// All files that the pages load, each to be served at its path.
pub const ASSETS: [Asset; 2] = [
    Asset {
        path: "/assets/style.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../../assets/style.css"),
    },
    Asset { path: "/assets/icon.svg", content_type: "image/svg+xml", body: include_str!("../../assets/icon.svg") },
];

/// Why a page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the OpenAPI document is not JSON")]
    Document(#[from] serde_json::Error),
    #[error("a page template failed")]
    Template(#[from] askama::Error),
}
