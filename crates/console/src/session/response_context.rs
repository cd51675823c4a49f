//! What the extractors of a request leave for its response.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, header};
use parking_lot::Mutex;

use crate::{page::error::ErrorContent, session::layout_source::LayoutSource};

/// The layout for an error page, and a cookie. The layout shows the user, workspace and project, as far as the user has
/// access.
#[derive(Clone, Debug, Default)]
pub struct ResponseContext(Arc<Mutex<ResponseContextFields>>);

#[derive(Debug, Default)]
struct ResponseContextFields {
    layout: Option<LayoutSource>,
    cookie: Option<HeaderValue>,
}

impl ResponseContext {
    /// Sets the layout in which an error is shown.
    pub fn set_layout_source(&self, layout: LayoutSource) {
        self.0.lock().layout = Some(layout);
    }

    /// Sets a cookie in the response.
    pub fn set_cookie(&self, cookie: HeaderValue) {
        self.0.lock().cookie = Some(cookie);
    }
}

/// Shows an error in the layout that the extractors have set, and sets the cookie.
pub fn finish_response(context: &ResponseContext, mut response: Response) -> Response {
    let ResponseContextFields { layout, cookie } = std::mem::take(&mut *context.0.lock());
    if let Some((error, layout)) = response.extensions_mut().remove::<ErrorContent>().zip(layout) {
        // The headers stay as they are: the handler may have added some.
        *response.body_mut() = error.render(layout.error_layout()).into_body();
    }
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
