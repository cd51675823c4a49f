//! Parses an HTTP request that was pasted from a log or a terminal.

use std::borrow::Cow;

use crate::CallbackRequest;

/// A request line, headers and a body. Debug output hides them, because they may contain secrets.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("PastedRequest({method}, {} headers, {} bytes)", headers.len(), body.len())]
pub struct PastedRequest {
    method: String,
    target: String,
    /// Header names with their values. A folded value has several lines.
    headers: Vec<(String, Vec<String>)>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastedRequestError {
    #[error("the request is empty")]
    Empty,
    #[error("the first line must be a request line such as `POST /callbacks HTTP/1.1`, unless the URL is given")]
    RequestLine,
    #[error("line {0} is not a header: expected `name: value`, and an empty line before the body")]
    Header(usize),
}

impl PastedRequest {
    /// Parses a pasted request. `target` is used if the request line is missing.
    pub fn parse(text: &str, target: Option<&str>) -> Result<Self, PastedRequestError> {
        // HTML forms submit newlines as CRLF.
        let text = text.replace("\r\n", "\n");
        let text = text.trim_start_matches(['\n', ' ']);
        if text.trim().is_empty() {
            return Err(PastedRequestError::Empty);
        }
        let text = strip_curl_markers(text);
        let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end_matches('\n'), ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let (line, rest) = match RequestLine::parse(first) {
            Some(line) => (line, lines.collect::<Vec<_>>()),
            None if first.contains(": ") => {
                let target = target.ok_or(PastedRequestError::RequestLine)?.to_owned();
                let line = RequestLine { method: "POST".to_owned(), target, host: None };
                (line, [first].into_iter().chain(lines).collect())
            }
            None => return Err(PastedRequestError::RequestLine),
        };
        let mut headers: Vec<(String, Vec<String>)> = vec![];
        for (number, line) in (2..).zip(rest) {
            let is_continued = line.starts_with([' ', '\t']);
            match (line.split_once(':'), headers.last_mut()) {
                (_, Some((_, lines))) if is_continued => lines.push(line.trim().to_owned()),
                (Some((name, value)), _) if is_header_name(name) => {
                    headers.push((name.to_owned(), vec![value.trim().to_owned()]));
                }
                _ => return Err(PastedRequestError::Header(number)),
            }
        }
        let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        headers.extend(line.host.filter(|_| !has_host).map(|host| ("host".to_owned(), vec![host])));
        let body = trim_to_content_length(body, &headers).as_bytes().to_vec();
        Ok(PastedRequest { method: line.method, target: line.target, headers, body })
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    pub fn header(&self, wanted: &str) -> Option<String> {
        let found = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, lines)| lines.join(" "))
    }

    /// Returns the name of the first header that is folded over several lines.
    pub(super) fn folded_header(&self) -> Option<&str> {
        self.headers.iter().find(|(_, lines)| lines.len() > 1).map(|(name, _)| name.as_str())
    }

    pub(super) fn headers(&self, separator: &str) -> Vec<(String, String)> {
        self.headers.iter().map(|(name, lines)| (name.clone(), lines.join(separator))).collect()
    }

    pub(super) fn request<'a>(&'a self, headers: &'a [(String, String)]) -> CallbackRequest<'a> {
        CallbackRequest { method: &self.method, target: &self.target, headers, body: &self.body }
    }
}

struct RequestLine {
    method: String,
    target: String,
    host: Option<String>,
}

impl RequestLine {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let (method, target) = (words.next()?, words.next()?);
        let is_method = method.bytes().all(|byte| byte.is_ascii_alphabetic());
        let version = words.next();
        let is_version = version.is_none_or(|version| version.starts_with("HTTP/"));
        if !is_method || !is_version || words.next().is_some() || !target.contains('/') {
            return None;
        }
        // The console shows an attempt as method and URL, without an HTTP version. Host and target are then parts of
        // the URL.
        let place = if version.is_none() { super::host_and_target(target) } else { None };
        let (host, target) = place.map_or((None, target.to_owned()), |(host, target)| (Some(host), target));
        Some(RequestLine { method: method.to_owned(), target, host })
    }
}

/// Removes the `>` with which `curl -v` marks sent lines.
fn strip_curl_markers(text: &str) -> Cow<'_, str> {
    if !text.starts_with("> ") {
        return text.into();
    }
    let bare = |line: &'_ str| line.strip_prefix("> ").or_else(|| line.strip_prefix('>')).unwrap_or(line).to_owned();
    text.split('\n').map(bare).collect::<Vec<_>>().join("\n").into()
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte))
}

/// Removes the newlines that copying adds after the body, if `content-length` is known.
fn trim_to_content_length<'a>(body: &'a str, headers: &[(String, Vec<String>)]) -> &'a str {
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, lines)| lines.concat().parse::<usize>().ok());
    match length.and_then(|length| body.split_at_checked(length)) {
        Some((body, rest)) if rest.trim().is_empty() => body,
        _ => body,
    }
}
