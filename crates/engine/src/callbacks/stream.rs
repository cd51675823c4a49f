//! Streams a project's callbacks to listeners: development machines that the server cannot reach with a request.
//!
//! A listener gets the callback of every check that concludes, even if the check has no callback URL. The courier still
//! delivers callbacks to their URLs.
//!
//! Nothing is stored for a listener. A stream reads the newest checks of each product about once a second, including
//! the checks of other nodes, and remembers which checks were open. A listener that reconnects names the last callback
//! that it got, and gets the later callbacks. It may get some callbacks twice, because checks do not appear in the
//! database in the order in which they conclude.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId, Concluded, Lifecycle},
    page::PageRequest,
    product::Product,
    tenancy::{Project, ProjectId, WorkspaceId},
    web_url::CallbackUrl,
};

use super::Callbacks;
use crate::{
    checks::ReadError,
    courier::sealing,
    ports::{
        store::{StoreError, TenantLookup},
        transport::OutboundRequest,
    },
};

/// Maximum number of streams of a project on this node.
pub const MAX_LISTENERS: usize = 8;
/// Maximum number of streams of a workspace on this node, so that one workspace cannot use up the limit of the node.
const MAX_LISTENERS_OF_WORKSPACE: usize = 16;
/// Maximum number of streams on this node. Each keeps a connection open, and reads from the store once a second.
const MAX_LISTENERS_OF_NODE: usize = 64;
/// A listener that reconnects gets no callbacks of checks that concluded longer ago than this.
pub const MAX_RESUME_AGE: SignedDuration = SignedDuration::from_hours(24);
/// How far before the listener's last callback a resumed stream starts. A check may appear in the database after checks
/// with a later time of conclusion: that of an expired check is its deadline, and the clocks of nodes differ.
const RESUME_OVERLAP: SignedDuration = SignedDuration::from_mins(5);
/// Each poll reads the checks that were created within this time before the last poll again. The clocks of nodes
/// differ, so a check may appear in the database after checks with a later creation time.
const CREATION_OVERLAP: SignedDuration = SignedDuration::from_secs(10);
/// Maximum time for which a check stays open: one hour for verifications, plus a margin for clock differences.
const MAX_OPEN_DURATION: SignedDuration = SignedDuration::from_mins(65);
/// Number of checks that one query reads.
const PAGE_SIZE: u32 = 100;
/// Maximum number of queries for the checks of a product in the first poll, which may have to read an hour or more.
const MAX_FIRST_PAGES: u32 = 10;
/// Maximum number of queries for new checks of a product in a later poll. Few, because streams have no rate limit.
const MAX_PAGES: u32 = 3;
/// Maximum number of open checks that a stream remembers. Each poll reads those that are older than its pages one by
/// one.
const MAX_OPEN_CHECKS: usize = 100;
/// The URL for which callbacks are signed if neither the check nor the listener has one.
const DEFAULT_URL: &str = "http://localhost/callbacks";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many listeners; on each server, a project may have {MAX_LISTENERS}, and a workspace \
     {MAX_LISTENERS_OF_WORKSPACE}"
)]
pub struct TooManyListeners;

/// Number of open streams of each workspace and project on this node.
#[derive(Debug, Default)]
pub(crate) struct OpenStreams(Mutex<HashMap<(WorkspaceId, ProjectId), usize>>);

/// Permission for one open stream. Dropping it makes room for another.
#[derive(Debug)]
struct StreamPermit {
    open: Arc<OpenStreams>,
    owner: (WorkspaceId, ProjectId),
}

impl OpenStreams {
    fn acquire(self: &Arc<Self>, project: &Project) -> Result<StreamPermit, TooManyListeners> {
        let owner = (project.workspace, project.id);
        let mut open = self.0.lock();
        let of_project = open.get(&owner).copied().unwrap_or_default();
        let of_workspace: usize =
            open.iter().filter(|((workspace, _), _)| *workspace == project.workspace).map(|(_, count)| count).sum();
        let of_node: usize = open.values().sum();
        if of_project >= MAX_LISTENERS || of_workspace >= MAX_LISTENERS_OF_WORKSPACE || of_node >= MAX_LISTENERS_OF_NODE
        {
            return Err(TooManyListeners);
        }
        open.insert(owner, of_project + 1);
        Ok(StreamPermit { open: Arc::clone(self), owner })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.open.0.lock();
        if let Some(count) = open.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.owner);
            }
        }
    }
}

/// A listener's stream of a project's callbacks.
#[derive(Debug)]
pub struct CallbackStream {
    project: Project,
    /// The listener's URL, for which callbacks are signed. `None`: each is signed for its own URL.
    url: Option<CallbackUrl>,
    position: StreamPosition,
    _permit: StreamPermit,
}

/// Decides which checks of a project a stream has to read, and which of them it has already sent.
#[derive(Debug)]
struct StreamPosition {
    /// Callbacks of checks that concluded before this time are not sent.
    from: Timestamp,
    /// For each product, the time before which all created checks are known.
    known_until: BTreeMap<Product, Timestamp>,
    /// Known checks that were open when they were last read.
    open: BTreeMap<CheckId, Product>,
    /// Concluded checks that were created so recently that the next poll reads them again.
    recently_concluded: BTreeMap<CheckId, Timestamp>,
}

/// Result of [`Callbacks::poll_stream`].
#[derive(Debug, Default)]
pub struct StreamedCallbacks {
    /// Earliest conclusion first.
    pub callbacks: Vec<StreamedCallback>,
    /// Whether callbacks are missing, because the project creates more checks than a stream reads.
    pub is_incomplete: bool,
}

/// The callback of a concluded check, signed for the listener.
#[derive(Debug)]
pub struct StreamedCallback {
    pub check: CheckId,
    pub product: Product,
    pub concluded_at: Timestamp,
    pub request: OutboundRequest,
}

impl StreamPosition {
    fn new(from: Timestamp) -> Self {
        StreamPosition {
            from,
            known_until: BTreeMap::new(),
            open: BTreeMap::new(),
            recently_concluded: BTreeMap::new(),
        }
    }

    /// Returns the creation time from which checks of a product have to be read.
    fn created_from(&self, product: Product) -> Timestamp {
        match self.known_until.get(&product) {
            Some(known) => earlier(*known, CREATION_OVERLAP),
            // The first poll also reads checks that were created before `from` and may still be open.
            None => earlier(self.from, MAX_OPEN_DURATION),
        }
    }

    /// Takes note of a check that was read. Returns whether its callback has to be sent.
    fn observe(&mut self, check: &AnyCheck) -> bool {
        // A page of checks may also contain older ones, which earlier polls have handled.
        if check.created_at < self.created_from(check.product) && !self.open.contains_key(&check.id) {
            return false;
        }
        let Lifecycle::Concluded { at, .. } = check.state else {
            self.open.insert(check.id, check.product);
            return false;
        };
        self.open.remove(&check.id);
        let is_new = self.recently_concluded.insert(check.id, check.created_at).is_none();
        // A check that is a step of a verification has no callback of its own: only the verification has one.
        is_new && at >= self.from && check.verification.is_none()
    }

    /// Ends a poll that has read the checks of `product` that were created before `newest`. Returns whether the stream
    /// forgot open checks, because there are too many to remember.
    fn finish_poll(&mut self, product: Product, newest: Timestamp) -> bool {
        let known = self.known_until.entry(product).or_insert(newest);
        *known = newest.max(*known);
        let oldest_read = self.known_until.values().min().map(|known| earlier(*known, CREATION_OVERLAP));
        if let Some(oldest_read) = oldest_read {
            self.recently_concluded.retain(|_, created_at| *created_at >= oldest_read);
        }
        let mut has_forgotten = false;
        while self.open.len() > MAX_OPEN_CHECKS {
            self.open.pop_first();
            has_forgotten = true;
        }
        has_forgotten
    }
}

impl Callbacks {
    /// Opens a stream of a project's callbacks.
    ///
    /// `after` is the time of conclusion of the last callback that the listener got. `None`: the stream starts now.
    pub fn open_stream(
        &self,
        project: Project,
        after: Option<Timestamp>,
        url: Option<CallbackUrl>,
    ) -> Result<CallbackStream, TooManyListeners> {
        let permit = self.streams.acquire(&project)?;
        let now = self.context.now();
        let from = after.map_or(now, |after| earlier(after, RESUME_OVERLAP).max(earlier(now, MAX_RESUME_AGE)));
        Ok(CallbackStream { project, url, position: StreamPosition::new(from), _permit: permit })
    }

    /// Reads the callbacks of checks that have concluded since the last poll. After an error, the stream must not be
    /// used again: the listener has to reconnect and open a new one.
    pub async fn poll_stream(&self, stream: &mut CallbackStream) -> Result<StreamedCallbacks, StoreError> {
        let (project, url) = (&stream.project, stream.url.as_ref());
        let mut concluded = vec![];
        let mut is_incomplete = false;
        for &product in Product::WITH_CALLBACKS.iter().filter(|product| project.products.contains(product)) {
            let created_from = stream.position.created_from(product);
            let is_first = !stream.position.known_until.contains_key(&product);
            let max_pages = if is_first { MAX_FIRST_PAGES } else { MAX_PAGES };
            let now = self.context.now();
            let mut read = BTreeSet::new();
            let mut is_complete = false;
            for number in 1..=max_pages {
                let page = PageRequest::new(PAGE_SIZE, number).unwrap_or_default();
                let checks = self.checks.list_any_checks(project.id, product, None, page).await?.items;
                is_complete = checks.len() < usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX)
                    || checks.last().is_none_or(|oldest| oldest.created_at < created_from);
                for check in checks {
                    read.insert(check.id);
                    if stream.position.observe(&check) {
                        concluded.push(check);
                    }
                }
                if is_complete {
                    break;
                }
            }
            let unread = stream.position.open.iter().filter(|(id, other)| **other == product && !read.contains(id));
            for id in unread.map(|(id, _)| *id).collect::<Vec<_>>() {
                match self.checks.read_any_check(project.id, product, id).await {
                    Ok(check) if stream.position.observe(&check) => concluded.push(check),
                    Ok(_) => {}
                    // The check was deleted after its retention time.
                    Err(ReadError::NotFound | ReadError::OtherProject) => drop(stream.position.open.remove(&id)),
                    Err(ReadError::Store(error)) => return Err(error),
                }
            }
            is_incomplete |= stream.position.finish_poll(product, now) || !is_complete;
        }
        concluded.sort_by_key(|check| (check.updated_at(), check.id));
        let mut callbacks = vec![];
        for check in concluded {
            callbacks.extend(self.streamed_callback(url, check).await?);
        }
        Ok(StreamedCallbacks { callbacks, is_incomplete })
    }

    /// Signs the callback of a concluded check for a listener. `None`: the check was deleted meanwhile, or the node is
    /// shutting down.
    async fn streamed_callback(
        &self,
        url: Option<&CallbackUrl>,
        check: AnyCheck,
    ) -> Result<Option<StreamedCallback>, StoreError> {
        let AnyCheck { id, product, mode, .. } = check;
        let Some(concluded_at) = check.updated_at() else { return Ok(None) };
        let keys = self.context.keys();
        let stored = match self.store.find_callback(check.project, id).await? {
            TenantLookup::Found(stored) => Some(stored),
            TenantLookup::OtherTenant | TenantLookup::NotFound => None,
        };
        let own_url = stored.as_ref().and_then(|stored| sealing::unseal_url(&keys, id, &stored.url));
        let body = stored.and_then(|stored| sealing::unseal_body(&keys, id, &stored.body?));
        let body = match body {
            Some(body) => Some(body),
            // No callback is stored for a check without a callback URL, so the body is rendered here.
            None => self.render_callback(check).await?,
        };
        let default_url = || CallbackUrl::from_stored(DEFAULT_URL).ok();
        let (Some(body), Some(url)) = (body, url.cloned().or(own_url).or_else(default_url)) else { return Ok(None) };
        let request = self.courier.sign_once(mode, product, url, body).await;
        Ok(request.map(|request| StreamedCallback { check: id, product, concluded_at, request }))
    }

    async fn render_callback(&self, check: AnyCheck) -> Result<Option<Vec<u8>>, StoreError> {
        if check.product == Product::Verification {
            return self.verifications.render_callback(check.id).await;
        }
        Ok(Concluded::of_stored(check).map(|concluded| self.checks.render_callback(&concluded)))
    }
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}
