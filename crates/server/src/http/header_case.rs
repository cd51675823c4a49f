//! Title-case header names in responses to devices, whose HTTP clients may compare names case-sensitively.
//!
//! hyper writes lower-case names unless a response carries the extensions of a request parsed with
//! `preserve_header_case`. `title_case_headers` would apply to every response and cost a tenth of the throughput; only
//! devices need it (decisions/0009-device-responses.md).

use std::{convert::Infallible, future::ready, sync::OnceLock};

use axum::body::Body;
use futures_util::FutureExt;
use http::Extensions;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

/// Names all headers that a response to a device can have.
const TEMPLATE_REQUEST: &str = "GET / HTTP/1.1\r\n\
    Allow: -\r\n\
    Cache-Control: -\r\n\
    Connection: close\r\n\
    Content-Length: 0\r\n\
    Content-Security-Policy: -\r\n\
    Content-Type: -\r\n\
    Date: -\r\n\
    Location: -\r\n\
    Referrer-Policy: -\r\n\
    Retry-After: -\r\n\
    Set-Cookie: -\r\n\
    Strict-Transport-Security: -\r\n\
    Vary: -\r\n\
    X-API-Version: -\r\n\
    X-Content-Type-Options: -\r\n\
    X-RateLimit-Limit: -\r\n\
    X-RateLimit-Remaining: -\r\n\
    X-RateLimit-Reset: -\r\n\
    X-Request-Id: -\r\n\r\n";

/// Extensions of a request with these header names. Responses that carry them are written with the same case.
pub fn title_case_extensions() -> Extensions {
    let extensions = OnceLock::new();
    let service = service_fn(|request: Request<Incoming>| {
        let _ = extensions.set(request.extensions().clone());
        ready(Ok::<_, Infallible>(Response::new(Body::empty())))
    });
    let stream = TokioIo::new(tokio::io::join(TEMPLATE_REQUEST.as_bytes(), tokio::io::sink()));
    // All I/O is in memory, so the future resolves on its first poll.
    let _ = http1::Builder::new().preserve_header_case(true).serve_connection(stream, service).now_or_never();
    extensions.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn extensions_select_title_case_header_names() {
        for (extensions, name) in
            [(title_case_extensions(), "Location: /there"), (Extensions::new(), "location: /there")]
        {
            let service = service_fn(|_: Request<Incoming>| {
                let mut response = Response::builder().header("location", "/there").body(Body::empty()).unwrap();
                *response.extensions_mut() = extensions.clone();
                ready(Ok::<_, Infallible>(response))
            });
            let mut written = Vec::new();
            let stream = TokioIo::new(tokio::io::join(TEMPLATE_REQUEST.as_bytes(), &mut written));
            http1::Builder::new().half_close(true).serve_connection(stream, service).await.unwrap();
            let written = String::from_utf8(written).unwrap();
            assert!(written.contains(name), "{written}");
        }
    }
}
