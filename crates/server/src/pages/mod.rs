//! OpenAPI document, API reference and error pages.
//!
//! The pages load only the [`ASSETS`] and the [`THEME_SCRIPT`], so they work offline. Only the API reference uses other
//! scripts and inline styles: it is Scalar, which the crate `scalar_api_reference` contains as one file.
//!
//! Error texts come from the error catalog as [`error_page::ErrorEntry`]. Routes are defined in `http::docs_pages`.

pub mod error_page;
mod html;
pub mod openapi;
mod openapi_document;

pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Policy of the API reference. Scalar inserts its styles and icons at run time.
pub const REFERENCE_CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
     img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Applies the theme that the user chose in the console, on all pages.
pub const THEME_SCRIPT: Asset = Asset {
    path: "/assets/theme.js",
    content_type: "text/javascript; charset=utf-8",
    body: include_str!("../../assets/theme.js"),
};

/// Starts Scalar on the page.
pub const REFERENCE_SCRIPT: Asset = Asset {
    path: "/assets/reference.js",
    content_type: "text/javascript; charset=utf-8",
    body: include_str!("../../assets/reference.js"),
};

pub const REFERENCE: &str = include_str!("../../templates/reference.html");

/// Content type of all pages.
pub const HTML_CONTENT_TYPE: &str = "text/html; charset=utf-8";

#[derive(Debug, Clone, Copy)]
pub struct Asset {
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: &'static str,
}

/// Static files, served at their paths.
pub const ASSETS: [Asset; 2] = [
    Asset {
        path: "/assets/style.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../../assets/style.css"),
    },
    Asset { path: "/assets/icon.svg", content_type: "image/svg+xml", body: include_str!("../../assets/icon.svg") },
];

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the OpenAPI document is not valid JSON")]
    Document(#[from] serde_json::Error),
    #[error("failed to render page template")]
    Template(#[from] askama::Error),
}
