//! Static files that pages load, and the files that all pages share.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

/// Content type of all HTML pages.
pub const HTML_CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// `Cache-Control` value for files that change only with a release.
pub const CACHE_FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// A static file that is compiled into the binary and served at its path.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    pub path: &'static str,
    pub content_type: &'static str,
    pub body: &'static str,
}

/// Style sheet and icon of all pages.
pub const SHARED_ASSETS: [Asset; 2] = [
    Asset {
        path: "/assets/style.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("../assets/style.css"),
    },
    Asset { path: "/assets/icon.svg", content_type: "image/svg+xml", body: include_str!("../assets/icon.svg") },
];

/// Script for all pages that applies the colour theme that the user chose in the console.
pub const THEME_SCRIPT: Asset = Asset {
    path: "/assets/theme.js",
    content_type: "text/javascript; charset=utf-8",
    body: include_str!("../assets/theme.js"),
};

impl IntoResponse for Asset {
    fn into_response(self) -> Response {
        let content_type = HeaderValue::from_static(self.content_type);
        ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, CACHE_FOR_AN_HOUR)], self.body).into_response()
    }
}
