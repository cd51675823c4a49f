//! Route table and router.
//!
//! The table allows a test to compare the routes with the OpenAPI document. axum's router supports layered services,
//! which cost time on every request and are not used here.

use std::{collections::BTreeMap, fmt, future::ready, pin::Pin};

use axum::{
    extract::Request,
    handler::Handler,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, header};

use super::{
    error_catalog::ProblemCode,
    path::MatchedRoute,
    problem::{Audience, Problem},
    request_context::HandlerState,
};

pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;
type BoxedHandler = Box<dyn Fn(Request, HandlerState) -> ResponseFuture + Send + Sync>;

#[derive(Default)]
pub struct Routes {
    table: Vec<(&'static str, &'static str)>,
    /// In the order of `table`.
    handlers: Vec<BoxedHandler>,
}

macro_rules! methods {
    ($($method:ident $name:literal),*) => {
        impl Routes {
            $(
                #[must_use]
                pub fn $method<H: Handler<T, HandlerState, Future = ResponseFuture>, T: 'static>(
                    self,
                    path: &'static str,
                    handler: H,
                ) -> Self {
                    self.add($name, path, Box::new(move |request, state| handler.clone().call(request, state)))
                }
            )*
        }
    };
}
methods!(get "GET", post "POST", put "PUT", patch "PATCH", delete "DELETE");

impl Routes {
    fn add(mut self, method: &'static str, path: &'static str, handler: BoxedHandler) -> Self {
        self.table.push((method, path));
        self.handlers.push(handler);
        self
    }

    #[must_use]
    pub fn merge(mut self, other: Routes) -> Self {
        self.table.extend(other.table);
        self.handlers.extend(other.handlers);
        self
    }

    /// Methods and path templates.
    pub fn table(&self) -> &[(&'static str, &'static str)] {
        &self.table
    }

    #[expect(clippy::expect_used, reason = "conflicting routes fail at startup and in every HTTP test")]
    pub(super) fn into_router(self) -> Router {
        let mut by_path = BTreeMap::<&'static str, Vec<(&'static str, BoxedHandler)>>::new();
        for ((method, path), handler) in self.table.into_iter().zip(self.handlers) {
            by_path.entry(path).or_default().push((method, handler));
        }
        let mut paths = matchit::Router::new();
        for (template, handlers) in by_path {
            let fixed_prefix = template.find("/{").unwrap_or(template.len());
            let parameters = template.split(['{', '}']).skip(1).step_by(2).collect();
            let entry = RouteEntry { template, fixed_prefix, parameters, handlers };
            paths.insert(template, entry).expect("path templates do not conflict");
        }
        Router { paths }
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.table).finish()
    }
}

pub(super) struct Router {
    paths: matchit::Router<RouteEntry>,
}

/// Handlers of a path template.
struct RouteEntry {
    template: &'static str,
    /// Length of the path before the first parameter.
    fixed_prefix: usize,
    parameters: Vec<&'static str>,
    handlers: Vec<(&'static str, BoxedHandler)>,
}

impl Router {
    /// Calls the handler of a request and records the matched route.
    pub(super) fn call(&self, request: Request, state: HandlerState) -> ResponseFuture {
        match self.find(&request, &state) {
            Ok(handler) => handler(request, state),
            Err(problem) => Box::pin(ready(problem.into_response())),
        }
    }

    fn find(&self, request: &Request, state: &HandlerState) -> Result<&BoxedHandler, Problem> {
        let path = request.uri().path();
        let found = self.paths.at(path).map_err(|_| Problem::not_found())?;
        let RouteEntry { template, fixed_prefix, parameters, .. } = found.value;
        if is_ambiguous_path(&path[*fixed_prefix..]) {
            return Err(Problem::not_found());
        }
        let handler = found.value.handler(request.method());
        let handler = handler.map_err(|problem| problem.for_audience(Audience::for_request(request)))?;
        let values = found.params.iter().map(|(_, value)| value);
        let _ = state.context.matched_route.set(MatchedRoute::new(template, parameters, values));
        Ok(handler)
    }
}

/// Whether proxies may normalise the path differently. Escaped `/` and NUL are not ambiguous; parameter parsers
/// reject them.
fn is_ambiguous_path(path: &str) -> bool {
    let is_ambiguous_escape =
        |escape: &[u8]| matches!(escape, [b'2', b'e' | b'E'] | [b'5', b'c' | b'C'] | [b'3', b'b' | b'B']);
    let bytes = path.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b';' | b'\\' => true,
        b'%' => bytes.get(at + 1..at + 3).is_some_and(is_ambiguous_escape),
        b'/' => {
            matches!(&bytes[at + 1..], [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
        }
        _ => false,
    })
}

impl RouteEntry {
    /// `HEAD` uses the handler of `GET`; hyper omits the body.
    fn handler(&self, method: &Method) -> Result<&BoxedHandler, Problem> {
        let method_name = if *method == Method::HEAD { "GET" } else { method.as_str() };
        let found = self.handlers.iter().find(|(method, _)| *method == method_name);
        found.map(|(_, handler)| handler).ok_or_else(|| {
            let allow = HeaderValue::from_str(&self.methods().join(",")).unwrap_or(HeaderValue::from_static(""));
            Problem::new(
                ProblemCode::MethodNotAllowed,
                "method not supported; the `Allow` header lists the supported methods",
            )
            .with_header(header::ALLOW, allow)
        })
    }

    fn methods(&self) -> Vec<&'static str> {
        let methods = self.handlers.iter().flat_map(|(method, _)| match *method {
            "GET" => &["GET", "HEAD"][..],
            _ => std::slice::from_ref(method),
        });
        methods.copied().collect()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Router(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_paths_are_detected() {
        for (path, is_ambiguous) in [
            ("/", false),
            ("/v1/sim-swap-checks", false),
            ("/v1/eligibility/phone-numbers/%2B447700900123", false),
            ("/v1/eligibility/device-ips/192.0.2.1", false),
            ("/v1/eligibility/device-ips/2001:db8::1", false),
            ("/.well-known/jwks.json", false),
            ("/...", false),
            ("/a..", false),
            ("/%2", false),
            ("/%", false),
            ("/a%2Fb", false),
            ("/a%00", false),
            ("*", false),
            ("//v1", true),
            ("/v1//a", true),
            ("/v1/a//", true),
            ("/./a", true),
            ("/a/.", true),
            ("/a/..", true),
            ("/a/../b", true),
            ("/a;b", true),
            ("/a\\b", true),
            ("/%2e", true),
            ("/%2E%2e/", true),
            ("/a%5cb", true),
            ("/a%3Bb", true),
        ] {
            assert_eq!(is_ambiguous_path(path), is_ambiguous, "{path}");
        }
    }
}
