//! Text that is safe to put into a page.
//!
//! Descriptions in the document are written in the small part of Markdown that [`Writer::text`] reads: paragraphs,
//! `## ` headings, `- ` lists and `` `code` ``. Everything is escaped first, so no description can bring markup along.

use std::{collections::BTreeSet, fmt};

use askama::filters::HtmlSafe;

/// Markup that is ready for a page. Templates write it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Takes markup whose text is escaped already.
    pub(super) fn trusted(markup: String) -> Self {
        Self(markup)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

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

/// A text that may be broken after each `mark`, so that it fits a narrow screen.
pub(super) fn breakable(text: &str, mark: char) -> Html {
    Html(escape(text).replace(mark, &format!("{mark}<wbr>")))
}

/// Lower-case words with hyphens, for an anchor.
pub(super) fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// Writes descriptions, with each known error code as a link to its page.
#[derive(Debug, Default)]
pub(super) struct Writer<'a> {
    error_codes: BTreeSet<&'a str>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(error_codes: BTreeSet<&'a str>) -> Self {
        Self { error_codes }
    }

    /// One or more blocks.
    pub(super) fn text(&self, source: &str) -> Html {
        let mut out = String::new();
        for block in source.trim().split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
            self.block(block, &mut out);
        }
        Html(out)
    }

    /// One line, without a paragraph around it.
    pub(super) fn line(&self, source: &str) -> Html {
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
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        if let Some(heading) = first.strip_prefix("## ") {
            let (id, heading) = (slug(heading), self.line(heading).0);
            out.extend(["<h2 id=\"", &id, "\">", &heading, "</h2>"]);
            if !rest.is_empty() {
                self.block(rest, out);
            }
        } else if first.starts_with("- ") {
            out.push_str("<ul>");
            for item in format!("\n{block}").split("\n- ").skip(1) {
                out.extend(["<li>", &self.line(item).0, "</li>"]);
            }
            out.push_str("</ul>");
        } else {
            out.extend(["<p>", &self.line(block).0, "</p>"]);
        }
    }
}

/// The `## ` headings of a description, as anchor and title.
pub(super) fn headings(source: &str) -> Vec<(String, String)> {
    source.lines().filter_map(|line| line.strip_prefix("## ")).map(|title| (slug(title), title.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_becomes_blocks() {
        let source = "One `a<b`\nline.\n\n## Getting a token\nSee\n\n- first\n- second\n  goes on\n";
        assert_eq!(
            Writer::default().text(source).to_string(),
            "<p>One <code>a&lt;b</code>\nline.</p><h2 id=\"getting-a-token\">Getting a token</h2><p>See</p>\
             <ul><li>first</li><li>second\n  goes on</li></ul>"
        );
        assert_eq!(headings(source), [("getting-a-token".to_owned(), "Getting a token".to_owned())]);
    }

    #[test]
    fn markup_in_a_description_stays_text() {
        let html = Writer::default().text("<script>alert(1)</script> & \"x\" 'y' `</code><b>`").to_string();
        assert_eq!(
            html,
            "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; &#39;y&#39; \
             <code>&lt;/code&gt;&lt;b&gt;</code></p>"
        );
    }

    #[test]
    fn a_known_error_code_is_a_link() {
        let writer = Writer::new(BTreeSet::from(["not_found"]));
        assert_eq!(
            writer.line("`not_found` or `other`").to_string(),
            "<a href=\"/errors/not_found\"><code>not_found</code></a> or <code>other</code>"
        );
    }
}
