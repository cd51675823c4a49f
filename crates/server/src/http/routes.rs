//! A router that remembers its routes, so that a test can hold the OpenAPI document against them.

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    routing::{MethodRouter, delete, get, patch, post, put},
};

use super::{App, edge::Arrival};

#[derive(Default)]
pub struct Routes {
    router: Router<App>,
    table: Vec<(&'static str, &'static str)>,
}

/// A handler that tells the edge by which route it was reached: for metrics and logs, which must not see paths.
#[derive(Clone)]
struct Named<H> {
    path: &'static str,
    handler: H,
}

impl<H: Handler<T, App>, T: 'static> Handler<T, App> for Named<H> {
    type Future = H::Future;

    fn call(self, request: Request, app: App) -> Self::Future {
        if let Some(arrival) = request.extensions().get::<Arrival>() {
            arrival.learned.reached(self.path);
        }
        self.handler.call(request, app)
    }
}

macro_rules! methods {
    ($($method:ident $name:literal),*) => {
        impl Routes {
            $(
                #[must_use]
                pub fn $method<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
                    self.add($name, path, $method(Named { path, handler }))
                }
            )*
        }
    };
}
methods!(get "GET", post "POST", put "PUT", patch "PATCH", delete "DELETE");

impl Routes {
    fn add(mut self, method: &'static str, path: &'static str, route: MethodRouter<App>) -> Self {
        self.table.push((method, path));
        Routes { router: self.router.route(path, route), table: self.table }
    }

    #[must_use]
    pub fn merge(mut self, other: Routes) -> Self {
        self.table.extend(other.table);
        Routes { router: self.router.merge(other.router), table: self.table }
    }

    /// Changes the router as a whole, for a layer around these routes.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Router<App>) -> Router<App>) -> Self {
        Routes { router: change(self.router), table: self.table }
    }

    /// Methods and path templates.
    pub fn table(&self) -> &[(&'static str, &'static str)] {
        &self.table
    }

    pub fn into_router(self) -> Router<App> {
        self.router
    }
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.table).finish()
    }
}
