//! Content security policy: inline styles and scripts are permitted by their hashes only.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, prelude::BASE64_STANDARD};
use url::Url;

/// Returns the source expression that permits exactly this inline style or script.
pub(crate) fn hash_source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

/// Source of the page's own images.
const OWN_SOURCE: &str = "'self'";

/// Returns the source expression that permits an image. `None`: the URL is neither a path at this deployment, nor HTTPS,
/// nor the image itself.
pub(crate) fn image_source(url: &str) -> Option<String> {
    if url.starts_with("data:image/") {
        return Some("data:".to_owned());
    }
    if url.starts_with('/') && !url.starts_with("//") {
        return Some(OWN_SOURCE.to_owned());
    }
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    Some(url.origin().ascii_serialization())
}

/// Builds the content security policy. Only the console and the sites in `frame_origins` may show the page in a frame,
/// because another site could trick users into pressing the page's buttons.
pub(crate) fn content_security_policy(
    styles: &[&str],
    script: Option<&str>,
    image_source: Option<&str>,
    frame_origins: &[&str],
) -> String {
    let styles: Vec<_> = styles.iter().map(|style| hash_source(style)).collect();
    let (styles, script) = (styles.join(" "), script.map_or_else(|| "'none'".to_owned(), hash_source));
    let image = image_source.filter(|source| *source != OWN_SOURCE);
    let image = image.map(|source| format!(" {source}")).unwrap_or_default();
    let ancestors = [&["'self'"], frame_origins].concat().join(" ");
    format!(
        "default-src 'none'; style-src {styles}; script-src {script}; img-src {OWN_SOURCE}{image}; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors {ancestors}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_that_of_csp() {
        // Example from CSP Level 3, section 8.4: `alert('Hello, world.');`.
        let source = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(hash_source("alert('Hello, world.');"), source);
    }

    #[test]
    fn only_own_and_https_images_have_a_source() {
        for (url, source) in [
            ("https://shop.example/logo.svg", Some("https://shop.example")),
            ("https://shop.example:8443/a;b,c", Some("https://shop.example:8443")),
            ("https://bücher.example/", Some("https://xn--bcher-kva.example")),
            ("/logos/0199b0a8-0000-7000-8000-000000000000/ab.png", Some("'self'")),
            ("//shop.example/logo.svg", None),
            ("http://shop.example/logo.svg", None),
            ("data:image/png;base64,AA==", Some("data:")),
            ("data:text/html,", None),
            ("*", None),
        ] {
            assert_eq!(image_source(url).as_deref(), source, "{url}");
        }
    }
}
