//! Where in the console a request is: what the extractors find out about it, for the response.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, header};
use parking_lot::Mutex;

use crate::{page::error::ErrorContent, session::layout_source::LayoutSource};

/// The user, workspace and project of a request. The extractors fill it in, as far as the user has access.
#[derive(Clone, Debug, Default)]
pub struct RequestPlace(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    layout: Option<LayoutSource>,
    cookie: Option<HeaderValue>,
}

impl RequestPlace {
    pub fn enter(&self, layout: LayoutSource) {
        self.0.lock().layout = Some(layout);
    }

    /// Sets a cookie in the response.
    pub fn set_cookie(&self, cookie: HeaderValue) {
        self.0.lock().cookie = Some(cookie);
    }
}

/// Shows an error in the layout of the place where it happened, and sets the cookie.
pub fn finish_response(place: &RequestPlace, mut response: Response) -> Response {
    let Place { layout, cookie } = std::mem::take(&mut *place.0.lock());
    if let Some((error, layout)) = response.extensions_mut().remove::<ErrorContent>().zip(layout) {
        // The headers stay as they are: the handler may have added some.
        *response.body_mut() = error.render(layout.error_layout()).into_body();
    }
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
