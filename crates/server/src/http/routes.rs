//! The routes of a door: who answers which method at which path.
//!
//! A table, so that a test can hold the OpenAPI document against it, and a tree of its paths. Not the router of axum:
//! that one is made for whatever may stand around handlers, and pays for it with every request. Here nothing does.

use std::{collections::BTreeMap, fmt, future::ready, pin::Pin};

use axum::{
    extract::Request,
    handler::Handler,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, Method, header};

use super::{
    arrival::Context,
    catalogue::Code,
    path::Way,
    problem::{Audience, Problem},
};

/// What a handler does.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;
type Endpoint = Box<dyn Fn(Request, Context) -> Answering + Send + Sync>;

#[derive(Default)]
pub struct Routes {
    table: Vec<(&'static str, &'static str)>,
    /// In the same order.
    endpoints: Vec<Endpoint>,
}

macro_rules! methods {
    ($($method:ident $name:literal),*) => {
        impl Routes {
            $(
                #[must_use]
                pub fn $method<H: Handler<T, Context, Future = Answering>, T: 'static>(
                    self,
                    path: &'static str,
                    handler: H,
                ) -> Self {
                    self.add($name, path, Box::new(move |request, context| handler.clone().call(request, context)))
                }
            )*
        }
    };
}
methods!(get "GET", post "POST", put "PUT", patch "PATCH", delete "DELETE");

impl Routes {
    fn add(mut self, method: &'static str, path: &'static str, endpoint: Endpoint) -> Self {
        self.table.push((method, path));
        self.endpoints.push(endpoint);
        self
    }

    #[must_use]
    pub fn merge(mut self, other: Routes) -> Self {
        self.table.extend(other.table);
        self.endpoints.extend(other.endpoints);
        self
    }

    /// Methods and path templates.
    pub fn table(&self) -> &[(&'static str, &'static str)] {
        &self.table
    }

    #[expect(clippy::expect_used, reason = "routes that contradict each other are found by whatever starts a door")]
    pub(super) fn into_router(self) -> Router {
        let mut by_path = BTreeMap::<&'static str, Vec<(&'static str, Endpoint)>>::new();
        for ((method, path), endpoint) in self.table.into_iter().zip(self.endpoints) {
            by_path.entry(path).or_default().push((method, endpoint));
        }
        let mut paths = matchit::Router::new();
        for (template, endpoints) in by_path {
            let fixed = template.find("/{").unwrap_or(template.len());
            let parameters = template.split(['{', '}']).skip(1).step_by(2).collect();
            let place = Place { template, fixed, parameters, endpoints };
            paths.insert(template, place).expect("no two paths are alike");
        }
        Router { paths }
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.table).finish()
    }
}

/// Finds the handler of a request.
pub(super) struct Router {
    paths: matchit::Router<Place>,
}

/// A path, and who answers there.
struct Place {
    template: &'static str,
    /// So many bytes come before the first parameter.
    fixed: usize,
    parameters: Vec<&'static str>,
    endpoints: Vec<(&'static str, Endpoint)>,
}

impl Router {
    /// Hands a request to its handler, and says in its arrival which way it has taken.
    pub(super) fn call(&self, request: Request, context: Context) -> Answering {
        match self.find(&request, &context) {
            Ok(endpoint) => endpoint(request, context),
            Err(problem) => Box::pin(ready(problem.into_response())),
        }
    }

    fn find(&self, request: &Request, context: &Context) -> Result<&Endpoint, Problem> {
        let path = request.uri().path();
        let found = self.paths.at(path).map_err(|_| Problem::not_found())?;
        let Place { template, fixed, parameters, .. } = found.value;
        if plays_tricks(&path[*fixed..]) {
            return Err(Problem::not_found());
        }
        let endpoint = found.value.endpoint(request.method());
        let endpoint = endpoint.map_err(|problem| problem.for_audience(Audience::of(request)))?;
        let values = found.params.iter().map(|(_, value)| value);
        let _ = context.arrival.way.set(Way::new(template, parameters, values));
        Ok(endpoint)
    }
}

/// Whether some programs would read a path as another. Ours have none of these, so there is nothing to find. An escaped
/// `/` or NUL stays what it is for everybody: whoever reads the parameter that has one refuses it.
fn plays_tricks(path: &str) -> bool {
    let hides_a_character =
        |escape: &[u8]| matches!(escape, [b'2', b'e' | b'E'] | [b'5', b'c' | b'C'] | [b'3', b'b' | b'B']);
    let bytes = path.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b';' | b'\\' => true,
        b'%' => bytes.get(at + 1..at + 3).is_some_and(hides_a_character),
        b'/' => {
            matches!(&bytes[at + 1..], [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
        }
        _ => false,
    })
}

impl Place {
    /// Whoever can be asked to `GET` something can be asked for its `HEAD`: hyper leaves the body out.
    fn endpoint(&self, method: &Method) -> Result<&Endpoint, Problem> {
        let wanted = if *method == Method::HEAD { "GET" } else { method.as_str() };
        let found = self.endpoints.iter().find(|(method, _)| *method == wanted);
        found.map(|(_, endpoint)| endpoint).ok_or_else(|| {
            let allow = HeaderValue::from_str(&self.methods().join(",")).unwrap_or(HeaderValue::from_static(""));
            Problem::new(Code::MethodNotAllowed, "the `Allow` header lists the methods of this path")
                .with(header::ALLOW, allow)
        })
    }

    fn methods(&self) -> Vec<&'static str> {
        let methods = self.endpoints.iter().flat_map(|(method, _)| match *method {
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
    fn a_path_that_could_be_read_as_another_is_found_out() {
        for (path, tricks) in [
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
            assert_eq!(plays_tricks(path), tricks, "{path}");
        }
    }
}
