//! Server that sends callbacks: its concluded checks, public keys and callback resends.

use std::{collections::HashSet, time::Duration};

use clap::ValueEnum;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use ringtrue_domain::product::{Product, Scope};
use ringtrue_engine::ports::{Entropy, SystemEntropy};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    api_problem::ApiProblem, api_session::ApiSession, arguments::ProfileOption, checks::checks_path,
    list::fetch_all_pages, profile::ProfileName,
};
use crate::{
    cli::{
        context::CommandContext,
        error::CliError,
        listen::{HttpResponse, InvalidSecureUrl, SecureUrl},
    },
    http::time,
};

pub(super) const PRODUCTS_WITH_CALLBACKS: [Product; 3] = [Product::ReverseSms, Product::SecureSna, Product::Discovery];
const JWKS_PATH: [&str; 2] = [".well-known", "jwks.json"];
const MAX_ATTEMPTS: u32 = 4;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum FinalStatus {
    Completed,
    Expired,
    Error,
}

impl FinalStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            FinalStatus::Completed => "COMPLETED",
            FinalStatus::Expired => "EXPIRED",
            FinalStatus::Error => "ERROR",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ConcludedCheck {
    pub product: Product,
    pub check_id: String,
    pub concluded_at: Timestamp,
}

/// Server of a profile, accessed with the project credential.
#[derive(Debug)]
pub(in crate::cli) struct Upstream {
    session: ApiSession,
}

impl Upstream {
    pub(in crate::cli) fn open(context: &CommandContext, profile: &ProfileName) -> Result<Self, CliError> {
        Ok(Upstream { session: ApiSession::open(context, &ProfileOption { profile: Some(profile.clone()) })? })
    }

    pub(in crate::cli) fn jwks_url(&self) -> Result<SecureUrl, CliError> {
        jwks_url(&self.session)
    }

    /// Returns the JWKS response with any status.
    pub(in crate::cli) async fn fetch_key_set(&self) -> Result<HttpResponse, CliError> {
        let url = self.session.client.url(&JWKS_PATH, &[]);
        let response = self.session.client.send(Method::GET, &url, HeaderMap::new(), vec![]).await?;
        Ok(HttpResponse { status: response.status, body: response.body.to_vec() })
    }

    /// Lists checks of products with callbacks that concluded since then, oldest first.
    pub(in crate::cli) async fn concluded_since(&self, since: Timestamp) -> Result<Vec<ConcludedCheck>, CliError> {
        let mut all = vec![];
        for product in permitted_products(&self.session, &PRODUCTS_WITH_CALLBACKS).await? {
            all.extend(fetch_concluded(&self.session, product, since, &[]).await?);
        }
        all.sort_by_key(|check| check.concluded_at);
        Ok(all)
    }

    /// Requests a resend. The inner error is a rejection of this request only.
    pub(in crate::cli) async fn resend(&self, check: &ConcludedCheck) -> Result<Result<Value, ApiProblem>, CliError> {
        resend(&self.session, check.product, &check.check_id).await
    }
}

pub(super) fn jwks_url(session: &ApiSession) -> Result<SecureUrl, CliError> {
    let url = session.client.url(&JWKS_PATH, &[]);
    url.as_str().parse().map_err(|error: InvalidSecureUrl| CliError::Other(error.into()))
}

/// Filters the products that the credential may use.
pub(super) async fn permitted_products(session: &ApiSession, products: &[Product]) -> Result<Vec<Product>, CliError> {
    let mut permitted = vec![];
    let mut last = None;
    for product in products {
        match session.token(Scope::Product(*product)).await {
            Ok(_) => permitted.push(*product),
            Err(CliError::Api(problem)) if problem.error_code == "invalid_scope" => last = Some(problem),
            Err(other) => return Err(other),
        }
    }
    match last {
        Some(problem) if permitted.is_empty() => Err(CliError::Api(problem)),
        _ => Ok(permitted),
    }
}

/// Lists checks of a product that concluded since then, with one of these statuses, or any if empty.
pub(super) async fn fetch_concluded(
    session: &ApiSession,
    product: Product,
    since: Timestamp,
    statuses: &[FinalStatus],
) -> Result<Vec<ConcludedCheck>, CliError> {
    let statuses = if statuses.is_empty() { FinalStatus::value_variants() } else { statuses };
    let statuses: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
    let search = format!("status=in=({});updated_at=ge={}", statuses.join(","), time::format(since));
    let found = fetch_all_pages(session, Scope::Product(product), checks_path(product), Some(&search)).await?;
    // New checks shift others to the next page, which then repeats them.
    let mut known = HashSet::new();
    let concluded = found.iter().filter_map(|check| {
        let text = |name: &str| check.get(name).and_then(Value::as_str);
        let check_id = text("check_id")?.to_owned();
        Some(ConcludedCheck { product, check_id, concluded_at: time::parse(text("updated_at")?)? })
    });
    Ok(concluded.filter(|check| known.insert(check.check_id.clone())).collect())
}

/// Requests one resend, with retries under the same idempotency key.
pub(super) async fn resend(
    session: &ApiSession,
    product: Product,
    check: &str,
) -> Result<Result<Value, ApiProblem>, CliError> {
    let random: [u8; 16] = (&SystemEntropy::default() as &dyn Entropy).bytes();
    let key = format!("{:032x}", u128::from_be_bytes(random));
    let path = [checks_path(product), &[check, "callback-resends"]].concat();
    let mut delay = Duration::from_secs(1);
    for _ in 1..MAX_ATTEMPTS {
        match session.post_idempotent(Scope::Product(product), &path, &key).await {
            Err(error) if error.is_transient() => {
                sleep(error.retry_after().unwrap_or(delay).min(MAX_RETRY_DELAY)).await;
                delay *= 2;
            }
            other => return separate_rejection(other),
        }
    }
    separate_rejection(session.post_idempotent(Scope::Product(product), &path, &key).await)
}

/// Separates rejections of a single check from errors that affect all requests.
fn separate_rejection(response: Result<Value, CliError>) -> Result<Result<Value, ApiProblem>, CliError> {
    match response {
        Ok(scheduled) => Ok(Ok(scheduled)),
        Err(CliError::Api(problem)) if matches!(problem.status, 403 | 404 | 409 | 410) => Ok(Err(problem)),
        Err(other) => Err(other),
    }
}
