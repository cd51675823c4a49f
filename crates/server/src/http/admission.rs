//! What happens to a request before anybody reads it: it is refused if it is too large or for another region, and loses
//! what it must not say.

use axum::extract::Request;
use http::{HeaderMap, header};
use ringtrue_domain::region::Region;
use ringtrue_operators::header_enrichment::is_enrichment;

use super::{
    App,
    catalogue::Code,
    problem::{Problem, is_token_endpoint},
};

const MAX_URL: usize = 8 * 1024;
const MAX_HEADERS: usize = 8 * 1024;

/// What can be refused before anybody looks closer.
pub fn admit(app: &App, request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let url_length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if url_length > MAX_URL {
        return Err(Problem::new(Code::UriTooLong, format!("a URL has at most {MAX_URL} bytes")));
    }
    if headers_length(request) > MAX_HEADERS {
        let detail = format!("the headers have at most {MAX_HEADERS} bytes together");
        return Err(Problem::new(Code::RequestHeaderFieldsTooLarge, detail));
    }
    let host = uri.host().or_else(|| request.headers().get(header::HOST)?.to_str().ok());
    if let Some(named) = host.and_then(Region::of_host)
        && named != app.engine.region()
    {
        let ours = app.engine.region();
        let detail = format!("this host name is of the region `{named}`; this deployment is of `{ours}`");
        return Err(Problem::new(Code::WrongRegion, detail));
    }
    Ok(())
}

/// Takes out what only gateways of operators may say, and only elsewhere.
pub fn strip_enrichment(headers: &mut HeaderMap) {
    let forged: Vec<_> = headers.keys().filter(|name| is_enrichment(name.as_str())).cloned().collect();
    for name in forged {
        headers.remove(name);
    }
}

/// At the token endpoints a credential of any length is judged as a credential.
fn headers_length(request: &Request) -> usize {
    let judges_credentials = is_token_endpoint(request.uri().path());
    request
        .headers()
        .iter()
        .filter(|(name, _)| !(judges_credentials && *name == header::AUTHORIZATION))
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_that_only_operators_may_write_are_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("Host", "example.com"),
            ("X-MSISDN", "447700900123"),
            ("x-msisdn", "447700900124"),
            ("X-UP-CALLING-LINE-ID", "447700900123"),
            ("msisdn", "447700900123"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("X-Request-Id", "one"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        strip_enrichment(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "x-forwarded-for", "x-request-id"]);
    }
}
