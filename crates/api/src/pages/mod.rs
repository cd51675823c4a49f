//! Renders the OpenAPI document, the API reference and the error pages.
//!
//! The pages load only the shared assets ([`ringtrue_web::assets`]), so they work offline. Only the API reference uses
//! other scripts and inline styles: it is Scalar, which the crate `scalar_api_reference` contains as one file.
//!
//! Error texts come from the error catalog as [`error_page::ErrorEntry`]. Routes are defined in `docs_pages`.

pub(crate) mod error_page;
mod html;
pub mod openapi;
mod openapi_document;

use ringtrue_web::assets::Asset;

pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Content security policy of the API reference. It permits inline styles and `data:` URLs, because Scalar inserts its
/// styles and icons at run time.
pub const REFERENCE_CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Script that starts Scalar on the API reference page.
pub const REFERENCE_SCRIPT: Asset = Asset {
    path: "/assets/reference.js",
    content_type: "text/javascript; charset=utf-8",
    body: include_str!("../../assets/reference.js"),
};

pub const REFERENCE_PAGE: &str = include_str!("../../templates/reference.html");

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the OpenAPI document is not valid JSON")]
    Document(#[from] serde_json::Error),
    #[error("failed to render page template")]
    Template(#[from] askama::Error),
}
