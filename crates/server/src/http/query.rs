//! Query parameters: each known, each once.

use std::{borrow::Cow, str::FromStr};

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use ringtrue_domain::{
    page::{Page, PageRequest},
    search::{self, Field, Filter},
};
use serde::Serialize;

use super::{catalogue::Code, problem::Problem, time};

/// The parameters of a request's query.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Refuses parameters that are not `known`, and repeated ones.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = vec![];
        for field in query.unwrap_or_default().split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = decoded(name).ok_or_else(|| Problem::bad_request("a name in the query is not UTF-8"))?;
            if !known.contains(&name.as_str()) {
                let known = known.join("`, `");
                return Err(Problem::bad_request(if known.is_empty() {
                    "this call takes no query parameters".to_owned()
                } else {
                    format!("this call takes the query parameters `{known}` only")
                }));
            }
            if parameters.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Problem::bad_request(format!("the query parameter `{name}` occurs twice")));
            }
            let value = decoded(value).ok_or_else(|| {
                let code = if name == "search" { Code::SearchInvalid } else { Code::BadRequest };
                Problem::new(code, format!("the query parameter `{name}` is not UTF-8"))
            })?;
            parameters.push((name, value));
        }
        Ok(Query(parameters))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    pub fn page(&self) -> Result<PageRequest, Problem> {
        self.page_of(PageRequest::DEFAULT_SIZE)
    }

    /// A page of this size, unless another is asked for.
    pub fn page_of(&self, size: u32) -> Result<PageRequest, Problem> {
        let size = self.number("size", size)?;
        let number = self.number("page", 1)?;
        PageRequest::new(size, number)
            .ok_or_else(|| Problem::bad_request("`size` is 1 to 100, and `page` 1 to 2147483647"))
    }

    pub fn search(&self, fields: &'static [Field]) -> Result<Option<Filter>, Problem> {
        self.get("search")
            .map(|text| {
                search::parse(text, fields).map_err(|error| Problem::new(Code::SearchInvalid, error.to_string()))
            })
            .transpose()
    }

    pub fn instant(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.get(name)
            .map(|text| {
                // A raw `+` in a query is a space.
                let hint = if text.contains(' ') { "; send a `+` as `%2B`" } else { "" };
                time::parse(text).ok_or_else(|| Problem::bad_request(format!("`{name}`: {}{hint}", time::EXPECTED)))
            })
            .transpose()
    }

    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.get(name)
            .map(|text| text.parse().map_err(|error| Problem::bad_request(format!("`{name}`: {error}"))))
            .transpose()
    }

    fn number(&self, name: &str, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_plain { text.parse().ok() } else { None };
        number.ok_or_else(|| Problem::bad_request(format!("`{name}` must be a whole number")))
    }
}

/// As forms are encoded; a `%` that escapes nothing stands for itself. `None`: not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

/// The page wrapper of every list.
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
