//! Routes and their policies, on top of axum's router.
//!
//! [`Routes`] can be listed, so that tests compare them with the OpenAPI document. [`RouteHandler`] applies the policy
//! of a route to each request.

use std::{collections::BTreeMap, future::ready, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, any},
};
use http::Extensions;
use ringtrue_engine::rate_limits::RateLimitClass;

use crate::{
    app::App,
    detach_on_drop::DetachOnDrop,
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::{ClientKind, HandlerState, MatchedRoute, OnDisconnect, RequestContext, RoutePolicy},
    request_limits::check_request,
};

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Functions that each add a value to the extensions of a request. Some return a function that changes the response.
/// Most routes have none.
type RouteExtensions = Vec<Arc<dyn Fn(&mut Extensions) -> Option<FinishResponse> + Send + Sync>>;
type FinishResponse = Box<dyn FnOnce(Response) -> Response + Send>;

/// An HTTP method and path with their handler and policy.
#[derive(derive_more::Debug)]
#[debug("{method} {path}")]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub policy: RoutePolicy,
    /// Values that the handler can extract with axum's `Extension`.
    extensions: RouteExtensions,
    add_to: Box<dyn FnOnce(MethodRouter<App>, MatchedRoute, RouteExtensions) -> MethodRouter<App>>,
}

macro_rules! methods {
    ($($function:ident $method:ident),*) => {
        $(
            pub fn $function<H, T>(handler: H) -> Route
            where
                H: Handler<T, HandlerState, Future = ResponseFuture> + Sync,
                T: 'static,
            {
                Route {
                    method: stringify!($method),
                    path: "",
                    policy: RoutePolicy::default(),
                    extensions: RouteExtensions::default(),
                    add_to: Box::new(|methods, route, extensions| {
                        methods.on(MethodFilter::$method, RouteHandler { handler, route, extensions })
                    }),
                }
            }
        )*
    };
}
methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

impl Route {
    #[must_use]
    pub fn rate_limit(mut self, class: RateLimitClass) -> Self {
        self.policy.rate_limit = Some(class);
        self
    }

    /// Supports `Idempotency-Key`. The handler always runs to completion: if it were cancelled, its key would stay
    /// reserved and repeated requests would be rejected.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.policy.is_idempotent = true;
        self.completes_after_disconnect()
    }

    /// Runs the handler to completion even if the client disconnects or the request times out.
    #[must_use]
    pub fn completes_after_disconnect(mut self) -> Self {
        self.policy.on_disconnect = OnDisconnect::Complete;
        self
    }

    /// Adds the error fields of RFC 6749 to problems of this route.
    #[must_use]
    pub fn oauth_endpoint(mut self) -> Self {
        self.policy.client = ClientKind::OAuth;
        self
    }
}

#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
    /// Patterns of paths without a route, and the policy of requests for them.
    unknown_paths: Vec<(&'static str, RoutePolicy)>,
}

impl Routes {
    #[must_use]
    pub fn route(mut self, path: &'static str, route: Route) -> Self {
        self.routes.push(Route { path, ..route });
        self
    }

    /// Adds a `GET` route with the default policy.
    #[must_use]
    pub fn get<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, HandlerState, Future = ResponseFuture> + Sync,
        T: 'static,
    {
        self.route(path, get(handler))
    }

    /// Adds a `POST` route with the default policy.
    #[must_use]
    pub fn post<H, T>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, HandlerState, Future = ResponseFuture> + Sync,
        T: 'static,
    {
        self.route(path, post(handler))
    }

    /// Records requests in their project's request log, for all routes added so far.
    #[must_use]
    pub fn logged(mut self) -> Self {
        self.routes.iter_mut().for_each(|route| route.policy.is_logged = true);
        self
    }

    /// Gives all routes added so far the error format of CAMARA's APIs.
    #[must_use]
    pub fn with_camara_errors(mut self) -> Self {
        self.routes.iter_mut().for_each(|route| route.policy.client = ClientKind::Camara);
        self
    }

    /// Sets the rate limit of all routes added so far.
    #[must_use]
    pub fn rate_limit(mut self, class: RateLimitClass) -> Self {
        self.routes.iter_mut().for_each(|route| route.policy.rate_limit = Some(class));
        self
    }

    /// Adds a value that the handlers of all routes added so far can extract as an `Extension`.
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        for route in &mut self.routes {
            let value = value.clone();
            route.extensions.push(Arc::new(move |extensions| {
                extensions.insert(value.clone());
                None
            }));
        }
        self
    }

    /// Changes the responses of all routes added so far, by what extractors and handlers have written into the
    /// request's own `T`, which they can extract as an `Extension`.
    #[must_use]
    pub fn finish_with<T: Clone + Default + Send + Sync + 'static>(
        mut self,
        finish: fn(&T, Response) -> Response,
    ) -> Self {
        for route in &mut self.routes {
            route.extensions.push(Arc::new(move |extensions| {
                let value = T::default();
                extensions.insert(value.clone());
                Some(Box::new(move |response| finish(&value, response)))
            }));
        }
        self
    }

    /// Gives the error format of CAMARA's APIs to requests whose path has no route but matches `pattern`.
    #[must_use]
    pub fn with_camara_errors_if_unmatched(mut self, pattern: &'static str) -> Self {
        self.unknown_paths.push((pattern, RoutePolicy { client: ClientKind::Camara, ..RoutePolicy::default() }));
        self
    }

    /// Applies a rate limit to requests whose path has no route but matches `pattern`.
    #[must_use]
    pub fn rate_limit_unmatched(mut self, pattern: &'static str, class: RateLimitClass) -> Self {
        self.unknown_paths.push((pattern, RoutePolicy { rate_limit: Some(class), ..RoutePolicy::default() }));
        self
    }

    #[must_use]
    pub fn merge(mut self, other: Routes) -> Self {
        self.routes.extend(other.routes);
        self.unknown_paths.extend(other.unknown_paths);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// Builds the axum router. Panics if routes conflict, which every HTTP test would reveal.
    pub(crate) fn into_router(self, app: App) -> Router {
        let mut paths = BTreeMap::<&'static str, MethodRouter<App>>::new();
        for Route { path, policy, extensions, add_to, .. } in self.routes {
            let methods = paths.remove(path).unwrap_or_else(|| {
                MethodRouter::new()
                    .fallback(RouteHandler::without_extensions(method_not_allowed, MatchedRoute::unmatched(policy)))
            });
            paths.insert(path, add_to(methods, MatchedRoute { template: path, policy }, extensions));
        }
        let not_found = |policy| RouteHandler::without_extensions(not_found, MatchedRoute::unmatched(policy));
        for (pattern, policy) in self.unknown_paths {
            paths.insert(pattern, any(not_found(policy)));
        }
        let router = paths.into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
        router.fallback(not_found(RoutePolicy::default())).with_state(app)
    }
}

async fn not_found() -> Problem {
    Problem::not_found()
}

/// Handles requests with an unsupported method. axum adds the `Allow` header.
async fn method_not_allowed() -> Problem {
    let detail = "method not supported; the `Allow` header lists the supported methods";
    Problem::new(ProblemCode::MethodNotAllowed, detail)
}

/// Handler that checks a request, applies the policy of its route and calls the wrapped handler.
#[derive(Clone)]
struct RouteHandler<H> {
    handler: H,
    route: MatchedRoute,
    extensions: RouteExtensions,
}

impl<H> RouteHandler<H> {
    fn without_extensions(handler: H, route: MatchedRoute) -> Self {
        RouteHandler { handler, route, extensions: RouteExtensions::default() }
    }
}

impl<H, T> Handler<T, App> for RouteHandler<H>
where
    H: Handler<T, HandlerState, Future = ResponseFuture> + Sync,
    T: 'static,
{
    type Future = ResponseFuture;

    fn call(self, mut request: Request, app: App) -> ResponseFuture {
        let RouteHandler { handler, route, extensions } = self;
        let checked = request
            .extensions_mut()
            .remove::<Arc<RequestContext>>()
            .ok_or_else(|| Problem::internal(&"request without context"))
            .and_then(|context| {
                let checked = check_request(&app, &request, route.policy);
                let route = if checked.is_ok() { route } else { MatchedRoute::unmatched(route.policy) };
                context.enter_route(&app, route, request.uri(), request.headers());
                checked.map(|()| context)
            });
        let context = match checked {
            Ok(context) => context,
            Err(problem) => return Box::pin(ready(problem.into_response())),
        };
        let finish: Vec<_> = extensions.iter().filter_map(|add_to| add_to(request.extensions_mut())).collect();
        let tasks = app.tasks.clone();
        let response = handler.call(request, HandlerState { app, context });
        let response: ResponseFuture = match route.policy.on_disconnect {
            OnDisconnect::Cancel => response,
            OnDisconnect::Complete => Box::pin(DetachOnDrop::new(response, tasks)),
        };
        if finish.is_empty() {
            return response;
        }
        Box::pin(async { finish.into_iter().fold(response.await, |response, finish| finish(response)) })
    }
}
