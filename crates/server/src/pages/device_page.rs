//! HTML page for end-users who open a check URL in a browser.

use askama::Template;

/// Small, as it may load over a slow network.
#[derive(Debug, Template)]
#[template(path = "device.html")]
pub struct DevicePage<'a> {
    pub title: &'a str,
    /// May begin in lower case, like problem details.
    pub text: &'a str,
    /// Code for the end-user to copy.
    pub code: Option<&'a str>,
}

impl DevicePage<'_> {
    /// Renders the page, or the bare text if the template fails.
    pub fn render(&self) -> String {
        Template::render(self).unwrap_or_else(|_| super::html::escape(self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_small_and_has_no_scripts() {
        let page = DevicePage { title: "Nearly <done>", text: "Take <this>.", code: Some("a\"b") }.render();
        assert!(page.contains("Nearly &#60;done&#62;") && page.contains("Take &#60;this&#62;."), "{page}");
        assert!(page.contains("<code>a&#34;b</code>"), "{page}");
        assert!(!page.contains("<script") && !page.contains(" style=") && page.len() < 2048);
    }
}
