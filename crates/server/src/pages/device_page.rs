//! The page that a person sees whose browser has opened the URL of a check.

use askama::Template;

/// Says what happened. Small, since it may be opened on a slow network; and without links, since it is no place to stay.
#[derive(Debug, Template)]
#[template(path = "device.html")]
pub struct DevicePage<'a> {
    pub title: &'a str,
    /// One sentence or two. May begin in lower case, as details of problems do.
    pub text: &'a str,
    /// What the person takes along.
    pub code: Option<&'a str>,
}

impl DevicePage<'_> {
    /// The page; without its frame, if that fails.
    pub fn render(&self) -> String {
        Template::render(self).unwrap_or_else(|_| super::html::escape(self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_small_and_inert() {
        let page = DevicePage { title: "Nearly <done>", text: "Take <this>.", code: Some("a\"b") }.render();
        assert!(page.contains("Nearly &#60;done&#62;") && page.contains("Take &#60;this&#62;."), "{page}");
        assert!(page.contains("<code>a&#34;b</code>"), "{page}");
        assert!(!page.contains("<script") && !page.contains(" style=") && page.len() < 2048);
    }
}
