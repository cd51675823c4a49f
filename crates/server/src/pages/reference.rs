//! The reference at `/docs`, made from the API document.

use std::collections::BTreeMap;

use askama::Template;
use serde_json::{Map, Value};

use super::{
    PageError, curl,
    document::{Access, Document, Operation, text},
    html::{Html, Writer, breakable, headings, slug},
    responses::{self, Answer, Body, Failure},
    schema::{self, Member, Side},
};

#[derive(Template)]
#[template(path = "reference.html")]
struct Page<'d> {
    title: &'d str,
    version: &'d str,
    summary: &'d str,
    introduction: Html,
    base_url: &'d str,
    topics: Vec<(String, String)>,
    groups: Vec<Group<'d>>,
    errors: Vec<ErrorRow<'d>>,
    problems: Vec<Problem<'d>>,
}

/// A tag with its calls.
struct Group<'d> {
    anchor: String,
    name: &'d str,
    description: Html,
    calls: Vec<Call<'d>>,
}

struct Call<'d> {
    id: &'d str,
    method: String,
    path: Html,
    summary: &'d str,
    description: Html,
    access: Html,
    parameters: Vec<Parameter<'d>>,
    bodies: Vec<Body>,
    answers: Vec<Answer>,
    failures: Vec<Failure>,
    curl: String,
}

struct Parameter<'d> {
    place: &'d str,
    member: Member,
}

struct ErrorRow<'d> {
    status: u64,
    code: &'d str,
    shown: Html,
    title: &'d str,
}

/// The schema of an error body.
struct Problem<'d> {
    name: &'d str,
    description: Html,
    members: Html,
}

/// Renders the reference. The document is the one that [`super::openapi::document`] gives.
pub fn render(document: &str) -> Result<String, PageError> {
    let document = Document::parse(document)?;
    let writer = Writer::new(document.error_codes());
    let info = document.at("/info");
    let mut groups = Vec::new();
    for (tag, operations) in document.operations() {
        let calls = operations.iter().map(|operation| call(&document, &writer, operation)).collect::<Result<_, _>>()?;
        let name = text(tag, "name");
        groups.push(Group { anchor: slug(name), name, description: writer.text(text(tag, "description")), calls });
    }
    let page = Page {
        title: text(info, "title"),
        version: text(info, "version"),
        summary: text(info, "summary"),
        introduction: writer.text(text(info, "description")),
        base_url: document.base_url(),
        topics: headings(text(info, "description")),
        groups,
        errors: error_rows(&document),
        problems: problems(&document, &writer)?,
    };
    Ok(page.render()?)
}

fn call<'d>(document: &'d Document, writer: &Writer<'_>, operation: &Operation<'d>) -> Result<Call<'d>, PageError> {
    let (answers, failures) = responses::of(document, writer, operation)?;
    let mut parameters = Vec::new();
    for node in operation.parameters(document) {
        let member = responses::parameter(document, writer, text(node, "name"), node)?;
        parameters.push(Parameter { place: text(node, "in"), member });
    }
    Ok(Call {
        id: operation.id(),
        method: operation.method.clone(),
        path: breakable(operation.path, '/'),
        summary: operation.summary(),
        description: writer.text(operation.description()),
        access: writer.line(&access(operation)),
        parameters,
        bodies: responses::bodies(document, writer, &operation.bodies(), Side::Request)?,
        answers,
        failures,
        curl: curl::command(document, operation),
    })
}

fn access(operation: &Operation<'_>) -> String {
    match operation.access() {
        Access::Anyone => "Open to everyone.".to_owned(),
        Access::Client => "HTTP Basic with a client id and its secret.".to_owned(),
        Access::Token { scope } => format!("Bearer token with the scope `{scope}`."),
    }
}

/// Every error code, by status.
fn error_rows(document: &Document) -> Vec<ErrorRow<'_>> {
    let examples = document.at("/components/examples").as_object().into_iter().flat_map(Map::values);
    let mut rows = BTreeMap::new();
    for problem in examples.filter_map(|example| example.get("value")) {
        let status = problem.get("status").and_then(Value::as_u64).unwrap_or_default();
        let code = text(problem, "error_code");
        rows.insert(
            (status, code),
            ErrorRow { status, code, shown: breakable(code, '_'), title: text(problem, "title") },
        );
    }
    rows.into_values().collect()
}

fn problems<'d>(document: &'d Document, writer: &Writer<'_>) -> Result<Vec<Problem<'d>>, PageError> {
    let schemas = document.at("/components/schemas").as_object().into_iter().flatten();
    let mut found: Vec<_> = schemas.filter(|(name, _)| responses::is_problem(name)).collect();
    found.sort_by_key(|(name, _)| name.as_str() != "Problem");
    let shown = |(name, schema): (&'d String, &'d Value)| {
        let description = writer.line(text(schema, "description"));
        Ok(Problem { name, description, members: schema::tree(document, writer, schema, Side::Answer)? })
    };
    found.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{html::escape, openapi};

    fn page() -> String {
        render(&openapi::document("https://eu.api.example.com")).expect("renders")
    }

    #[test]
    fn the_page_shows_every_operation() {
        let page = page();
        let document = Document::parse(openapi::DOCUMENT).expect("JSON");
        let mut shown = 0;
        for operation in document.operations().into_iter().flat_map(|(_, operations)| operations) {
            let id = operation.id();
            assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id} has one place");
            assert_eq!(page.matches(&format!("href=\"#{id}\"")).count(), 3, "{id} is in both menus and on its heading");
            assert!(page.contains(&escape(operation.summary())), "{id}: summary");
            assert!(page.contains(&breakable(operation.path, '/').to_string()), "{id}: path");
            shown += 1;
        }
        assert_eq!(shown, page.matches("<article").count());
    }

    #[test]
    fn the_page_links_every_error_code() {
        let page = page();
        for code in Document::parse(openapi::DOCUMENT).expect("JSON").error_codes() {
            assert!(page.contains(&format!("href=\"/errors/{code}\"")), "{code}");
        }
    }

    #[test]
    fn every_link_within_the_page_has_its_place() {
        let page = page();
        for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert_eq!(page.matches(&format!("id=\"{target}\"")).count(), 1, "#{target}");
        }
    }

    #[test]
    fn the_page_holds_under_a_strict_policy() {
        let page = page();
        for forbidden in ["<script", " style=", "<style", "javascript:", " onclick", "<img", "<iframe", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        let loads = page.split(['<']).filter(|tag| tag.starts_with("link ") || tag.contains(" src="));
        assert!(loads.clone().count() > 0 && loads.clone().all(|tag| tag.contains("href=\"/assets/")));
    }

    #[test]
    fn what_the_document_says_is_escaped() {
        let hostile = openapi::DOCUMENT
            .replace("Storefront", "</pre><script>alert(1)</script>")
            .replace("List projects", "List <img src=x> projects");
        let page = render(&hostile).expect("renders");
        assert!(!page.contains("<script") && !page.contains("<img"));
        assert!(page.contains("&#60;img src=x&#62;") || page.contains("&lt;img src=x&gt;"));
    }
}
