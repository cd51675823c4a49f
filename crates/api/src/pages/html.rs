//! HTML escaping and rendering of descriptions.
//!
//! Descriptions use a subset of Markdown: paragraphs, `- ` lists and `` `code` ``. All text is escaped,
//! so descriptions cannot inject markup.

use std::{collections::BTreeSet, fmt};

use askama::filters::HtmlSafe;

/// HTML whose text is already escaped, so that templates insert it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Html {}

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// Escapes text and allows a line break after each `mark`, for narrow screens.
pub(super) fn insert_word_breaks(text: &str, mark: char) -> Html {
    Html(escape(text).replace(mark, &format!("{mark}<wbr>")))
}

/// Renders descriptions and links known error codes to their pages.
#[derive(Debug, Default)]
pub(super) struct MarkdownRenderer<'a> {
    error_codes: BTreeSet<&'a str>,
}

impl<'a> MarkdownRenderer<'a> {
    pub(super) fn new(error_codes: BTreeSet<&'a str>) -> Self {
        Self { error_codes }
    }

    /// Renders paragraphs and lists.
    pub(super) fn render_blocks(&self, source: &str) -> Html {
        let mut out = String::new();
        for block in source.trim().split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
            self.block(block, &mut out);
        }
        Html(out)
    }

    /// Renders inline text without a paragraph.
    pub(super) fn render_inline(&self, source: &str) -> Html {
        let mut out = String::new();
        for (at, piece) in source.split('`').enumerate() {
            let is_code = at % 2 == 1;
            let piece = escape(piece);
            match (is_code, self.error_codes.contains(piece.as_str())) {
                (false, _) => out.push_str(&piece),
                (true, false) => out.extend(["<code>", &piece, "</code>"]),
                (true, true) => out.extend(["<a href=\"/errors/", &piece, "\"><code>", &piece, "</code></a>"]),
            }
        }
        Html(out)
    }

    fn block(&self, block: &str, out: &mut String) {
        if block.starts_with("- ") {
            out.push_str("<ul>");
            for item in format!("\n{block}").split("\n- ").skip(1) {
                out.extend(["<li>", &self.render_inline(item).0, "</li>"]);
            }
            out.push_str("</ul>");
        } else {
            out.extend(["<p>", &self.render_inline(block).0, "</p>"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_rendered_as_blocks() {
        let source = "One `a<b`\nline.\n\n- first\n- second\n  goes on\n";
        assert_eq!(
            MarkdownRenderer::default().render_blocks(source).to_string(),
            "<p>One <code>a&lt;b</code>\nline.</p><ul><li>first</li><li>second\n  goes on</li></ul>"
        );
    }

    #[test]
    fn markup_in_a_description_is_escaped() {
        let html =
            MarkdownRenderer::default().render_blocks("<script>alert(1)</script> & \"x\" 'y' `</code><b>`").to_string();
        assert_eq!(
            html,
            "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; &#39;y&#39; \
             <code>&lt;/code&gt;&lt;b&gt;</code></p>"
        );
    }

    #[test]
    fn known_error_codes_are_links() {
        let renderer = MarkdownRenderer::new(BTreeSet::from(["not_found"]));
        assert_eq!(
            renderer.render_inline("`not_found` or `other`").to_string(),
            "<a href=\"/errors/not_found\"><code>not_found</code></a> or <code>other</code>"
        );
    }
}
