//! Renders the error pages. The `type` of a problem is the URL of its page.

use std::collections::BTreeMap;

use askama::Template;
use serde_json::{Map, Value, json};

use crate::pages::{
    PageError,
    html::{Html, MarkdownRenderer, insert_word_breaks},
    openapi_document::{OpenApiDocument, str_member},
};

/// Error catalog entry to render. The texts may contain `` `code` ``, and blank lines between paragraphs.
#[derive(Debug, Clone, Copy)]
pub struct ErrorEntry<'a> {
    pub code: &'a str,
    pub status: u16,
    pub title: &'a str,
    pub explanation: &'a str,
    pub remedy: &'a str,
}

/// Renders `/errors` and `/errors/{code}`.
#[derive(derive_more::Debug)]
#[debug("ErrorPages({})", document.base_url())]
pub struct ErrorPages {
    document: OpenApiDocument,
}

#[derive(Template)]
#[template(path = "error.html")]
struct Page<'a> {
    entry: ErrorEntry<'a>,
    explanation: Html,
    remedy: Html,
    example: String,
    calls: Calls<'a>,
}

/// Operations that can return an error.
enum Calls<'a> {
    /// No operation in the OpenAPI document lists the error.
    None,
    All,
    Some(Vec<Call<'a>>),
}

struct Call<'a> {
    anchor: String,
    method: String,
    path: Html,
    summary: &'a str,
}

#[derive(Template)]
#[template(path = "errors.html")]
struct Index<'a> {
    groups: Vec<(u16, Vec<ErrorEntry<'a>>)>,
}

impl ErrorPages {
    /// `document` is the output of [`super::openapi::document`] or [`super::openapi::reference_document`], which list
    /// the errors of each operation.
    pub fn new(document: &str) -> Result<Self, PageError> {
        Ok(Self { document: OpenApiDocument::parse(document)? })
    }

    pub fn page(&self, entry: &ErrorEntry<'_>) -> Result<String, PageError> {
        let renderer = MarkdownRenderer::new(self.document.error_codes());
        let page = Page {
            entry: *entry,
            explanation: renderer.render_blocks(entry.explanation),
            remedy: renderer.render_blocks(entry.remedy),
            example: format!("{:#}", self.example(entry)),
            calls: self.calls(entry.code),
        };
        Ok(page.render()?)
    }

    /// Renders the list of errors, grouped by HTTP status.
    pub fn index(entries: &[ErrorEntry<'_>]) -> Result<String, PageError> {
        let mut groups: BTreeMap<u16, Vec<_>> = BTreeMap::new();
        for entry in entries {
            groups.entry(entry.status).or_default().push(*entry);
        }
        Ok(Index { groups: groups.into_iter().collect() }.render()?)
    }

    /// Builds an example problem: the OpenAPI document's example for this error, with the values of the catalog entry.
    fn example(&self, entry: &ErrorEntry<'_>) -> Value {
        let examples = self.document.at("/components/examples").as_object().into_iter().flatten();
        let mut matching = examples.filter_map(|(name, example)| Some((name, example.get("value")?)));
        let found = matching.clone().find(|(name, _)| *name == entry.code);
        let found = found.or_else(|| matching.find(|(_, value)| str_member(value, "error_code") == entry.code));
        let mut problem = found.map_or_else(|| json!({"detail": entry.title}), |(_, value)| value.clone());
        if let Some(members) = problem.as_object_mut() {
            members.extend(self.catalog_members(entry));
        }
        problem
    }

    fn catalog_members(&self, entry: &ErrorEntry<'_>) -> Map<String, Value> {
        Map::from_iter([
            ("type".to_owned(), format!("{}/errors/{}", self.document.base_url(), entry.code).into()),
            ("title".to_owned(), entry.title.into()),
            ("status".to_owned(), entry.status.into()),
            ("error_code".to_owned(), entry.code.into()),
        ])
    }

    fn calls(&self, code: &str) -> Calls<'_> {
        let all: Vec<_> = self.document.operations().into_iter().flat_map(|(_, operations)| operations).collect();
        // CAMARA's operations have errors of their own.
        let all: Vec<_> = all.into_iter().filter(|call| call.responses(&self.document).any(is_problem)).collect();
        let count = all.len();
        let matching = all.into_iter().filter(|call| {
            call.responses(&self.document).any(|response| self.document.may_contain_error(response, code))
        });
        let calls: Vec<_> = matching
            .map(|call| Call {
                anchor: call.anchor(),
                path: insert_word_breaks(call.path, '/'),
                summary: call.summary(),
                method: call.method,
            })
            .collect();
        match calls.len() {
            0 => Calls::None,
            n if n == count => Calls::All,
            _ => Calls::Some(calls),
        }
    }
}

fn is_problem(response: &Value) -> bool {
    response.pointer("/content/application~1problem+json").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::openapi;

    const TAKEN: ErrorEntry<'_> = ErrorEntry {
        code: "project_name_taken",
        status: 409,
        title: "Project name taken",
        explanation: "Names are unique. See also `not_found`.",
        remedy: "Choose <another> name.",
    };

    fn pages() -> ErrorPages {
        ErrorPages::new(&openapi::document("https://us.api.example.com")).expect("JSON")
    }

    #[test]
    fn page_contains_meaning_solution_and_calls() {
        let page = pages().page(&TAKEN).expect("renders");
        for expected in [
            "<h1>Project name taken</h1>",
            "<p>Names are unique. See also <a href=\"/errors/not_found\"><code>not_found</code></a>.</p>",
            "<p>Choose &lt;another&gt; name.</p>",
            "https://us.api.example.com/errors/project_name_taken",
            "href=\"/docs#tag/projects/createProject\"",
            "href=\"/docs#tag/projects/updateProject\"",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(!page.contains("href=\"/docs#tag/projects/getProject\""));
    }

    #[test]
    fn error_of_all_calls_lists_no_calls() {
        let page = pages().page(&ErrorEntry { code: "wrong_region", status: 421, ..TAKEN }).expect("renders");
        assert!(page.contains("Any API call can") && !page.contains("href=\"/docs#"));
    }

    #[test]
    fn oauth_error_example_has_the_oauth_members() {
        let page = pages().page(&ErrorEntry { code: "invalid_client", status: 401, ..TAKEN }).expect("renders");
        assert!(page.contains("&#34;error_description&#34;"));
    }

    #[test]
    fn undocumented_error_has_a_page() {
        let entry = ErrorEntry { code: "<odd>", title: "<b>Odd</b>", ..TAKEN };
        let page = pages().page(&entry).expect("renders");
        assert!(!page.contains("<odd>") && !page.contains("<b>"));
    }

    #[test]
    fn index_is_grouped_by_status() {
        let other = ErrorEntry { code: "bad_request", status: 400, title: "Bad request", ..TAKEN };
        let index = ErrorPages::index(&[TAKEN, other]).expect("renders");
        let place = |what: &str| index.find(what).unwrap_or_else(|| panic!("{what} is missing"));
        assert!(place("/errors/bad_request") < place("/errors/project_name_taken"));
        assert_eq!(index.matches("<script").count(), index.matches(r#"<script src="/"#).count(), "no inline script");
        assert!(!index.contains(" style="));
    }
}
