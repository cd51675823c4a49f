//! Header names in their usual case, for clients on devices that know them by no other.
//!
//! hyper writes names in lower case, unless an answer has the extensions of a request whose names it was told to
//! remember: then it writes them as they stood there. It could also write all names of a connection in title case, but
//! that costs every answer a tenth of its time, and only devices need it (decisions/0009-what-devices-are-told.md).

use std::{convert::Infallible, future::ready, sync::OnceLock};

use axum::body::Body;
use futures_util::FutureExt;
use http::Extensions;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

/// All that the answer to a device can have.
const REQUEST: &str = "GET / HTTP/1.1\r\n\
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

/// The extensions of a request that has these names. An answer with the same has them in this case.
pub fn usual_case() -> Extensions {
    let extensions = OnceLock::new();
    let service = service_fn(|request: Request<Incoming>| {
        let _ = extensions.set(request.extensions().clone());
        ready(Ok::<_, Infallible>(Response::new(Body::empty())))
    });
    let stream = TokioIo::new(tokio::io::join(REQUEST.as_bytes(), tokio::io::sink()));
    // Nothing here has to be waited for.
    let _ = http1::Builder::new().preserve_header_case(true).serve_connection(stream, service).now_or_never();
    extensions.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_has_its_names_in_this_case_and_others_do_not() {
        for (extensions, name) in [(usual_case(), "Location: /there"), (Extensions::new(), "location: /there")] {
            let service = service_fn(|_: Request<Incoming>| {
                let mut response = Response::builder().header("location", "/there").body(Body::empty()).unwrap();
                *response.extensions_mut() = extensions.clone();
                ready(Ok::<_, Infallible>(response))
            });
            let mut written = Vec::new();
            let stream = TokioIo::new(tokio::io::join(REQUEST.as_bytes(), &mut written));
            http1::Builder::new().half_close(true).serve_connection(stream, service).await.unwrap();
            let written = String::from_utf8(written).unwrap();
            assert!(written.contains(name), "{written}");
        }
    }
}
