//! A server from which callbacks come: what has ended there, and having its callbacks sent again.

use std::{collections::HashSet, time::Duration};

use clap::ValueEnum;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use ringtrue_domain::product::{Product, Scope};
use ringtrue_engine::ports::{Entropy, SystemEntropy};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    arguments::Identity, checks::path, list::every_page, problem::Problem, profile::ProfileName, session::Session,
};
use crate::{
    cli::{
        desk::Desk,
        failure::Failure,
        listen::{Answer, Endpoint, NotAnEndpoint},
    },
    http::time,
};

/// The products whose checks have callbacks.
pub(super) const WITH_CALLBACKS: [Product; 3] = [Product::ReverseSms, Product::SecureSna, Product::Discovery];
const KEY_SET: [&str; 2] = [".well-known", "jwks.json"];
/// So often is a request made that may go well later.
const TRIES: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How a check can have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EndedAs {
    Completed,
    Expired,
    Error,
}

impl EndedAs {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            EndedAs::Completed => "COMPLETED",
            EndedAs::Expired => "EXPIRED",
            EndedAs::Error => "ERROR",
        }
    }
}

/// A check that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Ended {
    pub product: Product,
    pub check_id: String,
    pub at: Timestamp,
}

/// The server of a profile, as the project of that profile sees it.
#[derive(Debug)]
pub(in crate::cli) struct Upstream {
    session: Session,
}

impl Upstream {
    pub(in crate::cli) fn open(desk: &Desk, profile: &ProfileName) -> Result<Self, Failure> {
        Ok(Upstream { session: Session::open(desk, &Identity { profile: Some(profile.clone()) })? })
    }

    /// Where its public keys are.
    pub(in crate::cli) fn jwks(&self) -> Result<Endpoint, Failure> {
        jwks(&self.session)
    }

    /// What it says there, whatever the status.
    pub(in crate::cli) async fn key_set(&self) -> Result<Answer, Failure> {
        let url = self.session.server.url(&KEY_SET, &[]);
        let answer = self.session.server.send(Method::GET, &url, HeaderMap::new(), vec![]).await?;
        Ok(Answer { status: answer.status, body: answer.body.to_vec() })
    }

    /// All checks with a callback, perhaps, that have ended since then, oldest first.
    pub(in crate::cli) async fn ended_since(&self, since: Timestamp) -> Result<Vec<Ended>, Failure> {
        let mut all = vec![];
        for product in open_products(&self.session, &WITH_CALLBACKS).await? {
            all.extend(ended(&self.session, product, since, &[]).await?);
        }
        all.sort_by_key(|ended| ended.at);
        Ok(all)
    }

    /// Has a callback sent again. Inside: what the server has against it.
    pub(in crate::cli) async fn resend(&self, ended: &Ended) -> Result<Result<Value, Problem>, Failure> {
        resend(&self.session, ended.product, &ended.check_id).await
    }
}

pub(super) fn jwks(session: &Session) -> Result<Endpoint, Failure> {
    let url = session.server.url(&KEY_SET, &[]);
    url.as_str().parse().map_err(|problem: NotAnEndpoint| Failure::Failed(problem.into()))
}

/// Those of the products that the credential opens.
pub(super) async fn open_products(session: &Session, among: &[Product]) -> Result<Vec<Product>, Failure> {
    let mut open = vec![];
    let mut last = None;
    for product in among {
        match session.token(Scope::Product(*product)).await {
            Ok(_) => open.push(*product),
            Err(Failure::Problem(problem)) if problem.error_code == "invalid_scope" => last = Some(problem),
            Err(other) => return Err(other),
        }
    }
    match last {
        Some(problem) if open.is_empty() => Err(Failure::Problem(problem)),
        _ => Ok(open),
    }
}

/// The checks of a product that have ended since then, in one of these ways or in any.
pub(super) async fn ended(
    session: &Session,
    product: Product,
    since: Timestamp,
    ways: &[EndedAs],
) -> Result<Vec<Ended>, Failure> {
    let ways = if ways.is_empty() { EndedAs::value_variants() } else { ways };
    let ways: Vec<&str> = ways.iter().map(|way| way.as_str()).collect();
    let search = format!("status=in=({});updated_at=ge={}", ways.join(","), time::format(since));
    let found = every_page(session, Scope::Product(product), path(product), Some(&search)).await?;
    // What is created meanwhile moves others to the next page, where they come again.
    let mut known = HashSet::new();
    let ended = found.iter().filter_map(|check| {
        let text = |name: &str| check.get(name).and_then(Value::as_str);
        let check_id = text("check_id")?.to_owned();
        Some(Ended { product, check_id, at: time::parse(text("updated_at")?)? })
    });
    Ok(ended.filter(|ended| known.insert(ended.check_id.clone())).collect())
}

/// Has a callback sent again, once, however often that must be asked for.
pub(super) async fn resend(
    session: &Session,
    product: Product,
    check: &str,
) -> Result<Result<Value, Problem>, Failure> {
    let random: [u8; 16] = (&SystemEntropy::default() as &dyn Entropy).bytes();
    let key = format!("{:032x}", u128::from_be_bytes(random));
    let path = [path(product), &[check, "callback-resends"]].concat();
    let mut pause = Duration::from_secs(1);
    for _ in 1..TRIES {
        match session.order(Scope::Product(product), &path, &key).await {
            Err(failure) if failure.may_pass() => {
                sleep(failure.retry_after().unwrap_or(pause).min(LONGEST_PAUSE)).await;
                pause *= 2;
            }
            other => return sorted(other),
        }
    }
    sorted(session.order(Scope::Product(product), &path, &key).await)
}

/// What a server has against one request is no reason to give up the others.
fn sorted(answer: Result<Value, Failure>) -> Result<Result<Value, Problem>, Failure> {
    match answer {
        Ok(scheduled) => Ok(Ok(scheduled)),
        Err(Failure::Problem(problem)) if matches!(problem.status, 403 | 404 | 409 | 410) => Ok(Err(problem)),
        Err(other) => Err(other),
    }
}
