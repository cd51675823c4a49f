//! The hosted page of verifications: `/v/{token}`.
//!
//! `GET` and `HEAD` of the page change nothing, so link previews and repeated visits are safe. `/v/{token}/silent`
//! starts the silent check. If the verification has a redirect URL, the page opens `/v/{token}/silent` by itself, but
//! only once. In all other cases the user must submit a form of the page, because opening a link alone must not verify
//! anybody. The browser that starts the check gets a cookie, and only this browser may finish it
//! (decisions/0017-hosted-page.md). Paths contain the token and are never logged.

mod event_stream;
mod forms;
mod page_state;
mod visitor;
mod wallet;

use std::sync::Arc;

use axum::{body::Body, extract::State, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ringtrue_domain::{reverse_sms::Platform, tenancy::Project};
use ringtrue_engine::silent::{NextStep, RedirectError, RedirectOutcome, VerificationReturn};
use ringtrue_verification_page::{self as page, Confirming, DisplayMode};
use ringtrue_web::{
    app::App,
    problem::Problem,
    request_context::RequestContext,
    routes::{Routes, get, post},
};

use crate::{browser_cookie, redirect_response::redirect};
use event_stream::events;
pub(crate) use forms::require_same_origin;
use forms::{end, give_up_step, start_silent};
use page_state::page_state;
use visitor::{PageVisitor, START_REFUSAL_PARAMETER, StartRefusal, display_query, page_path};
use wallet::{answer, request};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Routes of the hosted page. They are not part of the API, so the OpenAPI document does not contain them.
pub fn routes() -> Routes {
    Routes::default()
        .get("/v/{token}", show)
        .route("/v/{token}/silent", get(leave_for_operator).completes_after_disconnect())
        .route("/v/{token}/silent", post(start_silent).completes_after_disconnect())
        .route("/v/{token}/next", post(give_up_step).completes_after_disconnect())
        .route("/v/{token}/end", post(end).completes_after_disconnect())
        .route("/v/{token}/wallet-request", post(request))
        .route("/v/{token}/wallet", post(answer).completes_after_disconnect())
        .get("/v/{token}/events", events)
        .get("/v/{token}/state", state)
}

/// `GET /v/{token}`
async fn show(State(app): State<App>, visitor: PageVisitor) -> Response {
    let shown = async {
        let view = visitor.load_view_for_visit(&app).await?;
        if !view.was_opened {
            app.engine.verifications.record_opening(&visitor.token, visitor.platform).await?;
        }
        Ok(visitor.render_view(&app, &view))
    };
    visitor.respond(shown.await)
}

/// `GET /v/{token}/silent`
///
/// Starts the silent check and shows a page that sends the browser to the operator. Without a permit, it does so only
/// if the page opened this URL by itself (see [`page_state::starts_by_itself`]), and otherwise redirects back to the page.
async fn leave_for_operator(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Response {
    let left = async {
        let view = visitor.load_view_for_action(&app).await?;
        let Some(key) = visitor.permitted_key(&app, &view)? else {
            let refusal = visitor.start_refusal(&app, &view);
            return visitor
                .redirect_to_action("", refusal.map(|refusal| (START_REFUSAL_PARAMETER, refusal.into_str())));
        };
        let (address, sim) = (visitor.device_address(&view), visitor.sim.as_deref());
        // A link with the parameter may be opened on a device without a wallet.
        let has_wallet = visitor.has_wallet && visitor.wallet_timing(&app, &view).is_some();
        let begun = app.engine.verifications.begin_silent(&visitor.token, &key, address, sim, has_wallet).await?;
        let mut response = match begun.ok_or(RedirectError::NotFound)? {
            NextStep::Redirect(location) => {
                let wallet = has_wallet.then_some(page::WalletTiming::Fallback);
                visitor.render_with(Some(&view), page::State::Leaving { location: &location }, wallet)
            }
            NextStep::Finish(end) if end.leaves_wallet => {
                return visitor
                    .redirect_to_action("", Some((START_REFUSAL_PARAMETER, StartRefusal::Wallet.into_str())));
            }
            // The silent check has failed before a redirect. The page shows the next method, or the end of the
            // verification.
            NextStep::Finish(_) => return visitor.redirect_to_page(),
        };
        visitor.set_browser_key(&app, &headers, view.verification, &key, &mut response);
        Ok(response)
    };
    visitor.respond(left.await)
}

/// `GET /v/{token}/state`
///
/// Responds with the name of the page's state. For browsers whose proxy holds back the events.
async fn state(State(app): State<App>, visitor: PageVisitor) -> Response {
    let read = async {
        let view = visitor.load_view_for_visit(&app).await?;
        let mut response = Response::new(Body::from(page_state(&view, Platform::Unknown).name()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Ok(response)
    };
    visitor.respond(read.await)
}

/// Responds to a browser that returns from its operator, if the hosted page started the silent check.
pub async fn finish_at_page(
    app: &App,
    context: &Arc<RequestContext>,
    headers: &HeaderMap,
    end: &RedirectOutcome,
    verification: &VerificationReturn,
) -> Result<Response, Problem> {
    let token = &verification.page_token;
    let is_popup = browser_cookie::began_in_popup(app, headers, verification.id);
    if let Ok(code) = &end.result {
        if let Some(url) = app.engine.verifications.page_return_url(token, &code.0).await? {
            let visitor = PageVisitor::new(app, Arc::clone(context), token.clone(), None, headers);
            match visitor.display {
                DisplayMode::Handset => {
                    let view = app.engine.verifications.page(token, &[]).await?.ok_or_else(Problem::not_found)?;
                    return Ok(visitor.render(Some(&view), page::State::Confirming(Confirming::Return(&url))));
                }
                // A pop-up window shows the page, which passes the code to the window that opened it.
                _ if is_popup => {}
                _ => return redirect(&url),
            }
        } else {
            app.engine.verifications.page_redeem(token, &code.0).await?;
        }
    }
    let query = if is_popup { display_query(DisplayMode::Popup) } else { String::new() };
    redirect(&format!("{}{}{query}", app.engine.base_url(), page_path(token)))
}

/// Returns the brand that pages for end-users show for a project.
pub fn brand_of(project: &Project) -> Option<page::Brand<'_>> {
    page::Brand::from_settings(&project.configuration.verification.brand, Some(&project.name))
}
