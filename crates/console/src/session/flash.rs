//! Results of forms, shown once by the page to which the form redirects. A reload neither submits the form again nor
//! shows the result again.

use axum::response::Response;
use http::{HeaderMap, header};
use ringtrue_domain::product::Product;
use ringtrue_engine::accounts::FLASH_MAX_AGE;
use ringtrue_web::app::App;
use url::form_urlencoded;

use crate::{
    page::{self, error::ConsoleError},
    session::console_session::{ConsoleSession, Cookie},
};

/// The result of a form, kept in a cookie that only the server can read.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum Flash {
    NewCredential {
        client_id: String,
        #[debug(skip)]
        secret: String,
        /// A scope for which the credential gets access tokens, for the example command. Empty: there is none.
        scope: String,
        /// Whether the project has just switched to live mode, which replaced all its other credentials.
        went_live: bool,
    },
    RecoveryCodes {
        #[debug(skip)]
        codes: Vec<String>,
        /// Path at which the user continues.
        next: String,
    },
    /// Outcome of a test callback: the HTTP status, or the name of a failure.
    TestCallback { product: Product, outcome: String, millis: u64 },
}

impl Flash {
    /// Sets the cookie and redirects to the page that shows the result.
    pub fn redirect(&self, app: &App, session: &ConsoleSession, path: &str) -> Result<Response, ConsoleError> {
        let sealed = app.engine.accounts.seal_flash(&session.token, &self.encode(path))?;
        let mut response = page::see_other(path);
        response.headers_mut().append(header::SET_COOKIE, Cookie::Flash.set_for(app, &sealed, FLASH_MAX_AGE));
        Ok(response)
    }

    /// Reads the result from the cookie, if there is one for this page.
    pub fn read(app: &App, session: &ConsoleSession, headers: &HeaderMap, path: &str) -> Option<Flash> {
        let sealed = Cookie::Flash.read(app, headers)?;
        Flash::decode(&app.engine.accounts.unseal_flash(&session.token, sealed)?, path)
    }

    /// Adds a header that deletes the cookie to the response that shows the result.
    pub fn clear(app: &App, mut response: Response) -> Response {
        response.headers_mut().append(header::SET_COOKIE, Cookie::Flash.clear(app));
        response
    }

    fn encode(&self, path: &str) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("path", path);
        match self {
            Flash::NewCredential { client_id, secret, scope, went_live } => {
                form.append_pair("client_id", client_id).append_pair("secret", secret).append_pair("scope", scope);
                if *went_live {
                    form.append_pair("went_live", "yes");
                }
            }
            Flash::RecoveryCodes { codes, next } => {
                form.append_pair("codes", &codes.join(" ")).append_pair("next", next);
            }
            Flash::TestCallback { product, outcome, millis } => {
                form.append_pair("product", product.into_str())
                    .append_pair("outcome", outcome)
                    .append_pair("millis", &millis.to_string());
            }
        }
        form.finish()
    }

    fn decode(text: &str, path: &str) -> Option<Flash> {
        let get = |name: &str| {
            form_urlencoded::parse(text.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if get("path")? != path {
            return None;
        }
        if let Some(secret) = get("secret") {
            let went_live = get("went_live").is_some();
            return Some(Flash::NewCredential {
                client_id: get("client_id")?,
                secret,
                scope: get("scope")?,
                went_live,
            });
        }
        if let Some(codes) = get("codes") {
            let codes = codes.split(' ').map(str::to_owned).collect();
            return Some(Flash::RecoveryCodes { codes, next: get("next")? });
        }
        Some(Flash::TestCallback {
            product: get("product")?.parse().ok()?,
            outcome: get("outcome")?,
            millis: get("millis")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_decoded_for_their_page_only() {
        let [client_id, secret, scope] = ["prj_a", "rts_&=%", "reverse_sms"].map(str::to_owned);
        for flash in [
            Flash::NewCredential { client_id, secret, scope, went_live: true },
            Flash::RecoveryCodes { codes: vec!["A-B".to_owned(), "C-D".to_owned()], next: "/console".to_owned() },
            Flash::TestCallback { product: Product::SecureSna, outcome: "blocked address".to_owned(), millis: 7 },
        ] {
            let text = flash.encode("/console/a?b");
            assert_eq!(Flash::decode(&text, "/console/a?b"), Some(flash));
            assert_eq!(Flash::decode(&text, "/console/a"), None);
        }
    }

    #[test]
    fn debug_output_has_no_secret() {
        let [client_id, secret, scope] = ["prj_a", "rts_x", "reverse_sms"].map(str::to_owned);
        assert!(
            !format!("{:?}", Flash::NewCredential { client_id, secret, scope, went_live: false }).contains("rts_x")
        );
        let codes = Flash::RecoveryCodes { codes: vec!["A-B".to_owned()], next: "/console".to_owned() };
        assert!(!format!("{codes:?}").contains("A-B"));
    }
}
