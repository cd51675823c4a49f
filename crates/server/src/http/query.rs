//! Query parameters: unknown and repeated ones are rejected.

use std::{borrow::Cow, str::FromStr};

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    page::{Page, PageRequest},
    search::{self, Field, Filter},
};
use serde::Serialize;

use super::{error_catalog::ProblemCode, problem::Problem, time};

pub struct Query(Vec<(String, String)>);

impl Query {
    /// Rejects repeated parameters and those not in `known`.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = vec![];
        for field in query.unwrap_or_default().split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decode_component(name)
                .ok_or_else(|| Problem::bad_request("a query parameter name is not valid UTF-8"))?;
            if !known.contains(&name.as_str()) {
                let known = known.join("`, `");
                return Err(Problem::bad_request(if known.is_empty() {
                    "this call does not accept query parameters".to_owned()
                } else {
                    format!("unknown query parameter; supported: `{known}`")
                }));
            }
            if parameters.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::bad_request(format!("the query parameter `{name}` is repeated")));
            }
            let value = decode_component(value).ok_or_else(|| {
                let code = if name == "search" { ProblemCode::SearchInvalid } else { ProblemCode::BadRequest };
                Problem::new(code, format!("the query parameter `{name}` is not valid UTF-8"))
            })?;
            parameters.push((name, value));
        }
        Ok(Query(parameters))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    pub fn page_request(&self) -> Result<PageRequest, Problem> {
        self.page_with_default_size(PageRequest::DEFAULT_SIZE)
    }

    /// Page request with this default size.
    pub fn page_with_default_size(&self, size: u32) -> Result<PageRequest, Problem> {
        let size = self.get_number("size", size)?;
        let number = self.get_number("page", 1)?;
        PageRequest::new(size, number)
            .ok_or_else(|| Problem::bad_request("`size` must be 1 to 100, and `page` 1 to 2147483647"))
    }

    pub fn search_filter(&self, fields: &'static [Field]) -> Result<Option<Filter>, Problem> {
        self.get("search")
            .map(|text| {
                search::parse(text, fields).map_err(|error| Problem::new(ProblemCode::SearchInvalid, error.to_string()))
            })
            .transpose()
    }

    pub fn get_timestamp(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.get(name)
            .map(|text| {
                // A raw `+` in a query decodes to a space.
                let hint = if text.contains(' ') { "; send a `+` as `%2B`" } else { "" };
                time::parse(text)
                    .ok_or_else(|| Problem::bad_request(format!("`{name}`: {}{hint}", time::EXPECTED_FORMAT)))
            })
            .transpose()
    }

    pub fn get_parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.get(name)
            .map(|text| text.parse().map_err(|error| Problem::bad_request(format!("`{name}`: {error}"))))
            .transpose()
    }

    fn get_number(&self, name: &str, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_plain { text.parse().ok() } else { None };
        number.ok_or_else(|| Problem::bad_request(format!("`{name}` must be an integer")))
    }
}

/// Form decoding; a `%` that starts no escape is literal. Returns `None` for invalid UTF-8.
fn decode_component(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

/// Page wrapper of all lists.
#[derive(Serialize)]
pub struct PageBody<T> {
    content: Vec<T>,
    page: PageNumbers,
}

#[derive(Serialize)]
struct PageNumbers {
    size: u32,
    number: u32,
    total_pages: u64,
    total_elements: u64,
}

impl<T> PageBody<T> {
    pub fn new<U>(page: Page<U>, of: impl FnMut(U) -> T) -> Self {
        let numbers = PageNumbers {
            size: page.request.size(),
            number: page.request.number(),
            total_pages: page.total_pages(),
            total_elements: page.total_items,
        };
        PageBody { content: page.map(of).items, page: numbers }
    }
}
