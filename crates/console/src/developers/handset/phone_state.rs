//! State of the simulated phone after a form was submitted. The response redirects to a page that shows this state, so
//! that a reload does not submit the form again. The browser keeps the state in a cookie that only the server can read,
//! bound to the session, because it contains numbers and codes.

use axum::response::Response;
use http::{HeaderMap, header};
use jiff::SignedDuration;
use ringtrue_web::{app::App, problem::Problem};
use serde::{Deserialize, Serialize};

use crate::{
    developers::handset::{CheckForm, PhoneScreen},
    page::{self, error::ConsoleError},
    session::console_session::{ConsoleSession, Cookie, ProjectAccess},
};

/// Lifetime of the cookie. Checks do not live longer; verifications can, if their project sets a long TTL.
const LIFETIME: SignedDuration = SignedDuration::from_mins(15);
/// Maximum length of a form value that the cookie keeps. Browsers limit cookies to 4 KiB.
const MAX_RESTORED_BYTES: usize = 300;

/// What the phone shows, and the values of the form beside it, for one project.
#[derive(Serialize, Deserialize)]
pub struct PhoneState {
    project: String,
    pub check_form: CheckForm,
    pub screen: PhoneScreen,
}

impl PhoneState {
    pub fn new(access: &ProjectAccess, mut check_form: CheckForm, screen: PhoneScreen) -> Self {
        for text in [&mut check_form.number, &mut check_form.reference, &mut check_form.callback_url] {
            if text.len() > MAX_RESTORED_BYTES {
                text.clear();
            }
        }
        PhoneState { project: access.project.id.to_string(), check_form, screen }
    }

    /// Sets the cookie and redirects to the page that shows the phone.
    pub fn redirect(&self, app: &App, access: &ProjectAccess) -> Result<Response, ConsoleError> {
        let json = serde_json::to_vec(self).map_err(|error| Problem::internal(&error))?;
        let sealed = app.engine.accounts.seal_for_browser(&cookie_purpose(&access.session), &json, LIFETIME)?;
        let mut response = page::see_other(&format!("{}/handset?phone", access.path()));
        response.headers_mut().append(header::SET_COOKIE, Cookie::Handset.set_for(app, &sealed, LIFETIME));
        Ok(response)
    }

    /// Reads the state from the cookie. `None`: the cookie is missing, has expired, or belongs to another session or
    /// project.
    pub fn read(app: &App, access: &ProjectAccess, headers: &HeaderMap) -> Option<Self> {
        let sealed = Cookie::Handset.read(app, headers)?;
        let json = app.engine.accounts.unseal_from_browser(&cookie_purpose(&access.session), sealed)?;
        let state: PhoneState = serde_json::from_slice(&json).ok()?;
        (state.project == access.project.id.to_string()).then_some(state)
    }

    /// Adds a header that deletes the cookie.
    pub fn clear(app: &App, mut response: Response) -> Response {
        response.headers_mut().append(header::SET_COOKIE, Cookie::Handset.clear(app));
        response
    }
}

fn cookie_purpose(session: &ConsoleSession) -> String {
    format!("handset:{}", session.token.reveal())
}

/// Serde functions that store a product by its name.
pub mod product_name {
    use ringtrue_domain::product::Product;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(product: &Product, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(product.into_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Product, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
