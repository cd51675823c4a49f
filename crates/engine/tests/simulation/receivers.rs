//! Callback receivers with scripted behaviour, which record all requests.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_engine::ports::{
    clock::{Clock, ManualClock},
    transport::{OutboundRequest, OutboundResponse, Transport, TransportError},
};
use serde_json::Value;
use tokio::sync::oneshot;

pub const HOSTS: usize = 4;
pub const ATTEMPT_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverBehavior {
    Responds(u16),
    Unreachable,
    Hangs,
}

pub const FAILING_BEHAVIORS: [ReceiverBehavior; 6] = [
    ReceiverBehavior::Responds(500),
    ReceiverBehavior::Responds(204),
    ReceiverBehavior::Responds(301),
    ReceiverBehavior::Responds(429),
    ReceiverBehavior::Unreachable,
    ReceiverBehavior::Hangs,
];

pub type ResponseResult = Result<u16, TransportError>;

/// A callback request that a receiver got.
#[derive(Clone, Debug)]
pub struct Post {
    /// Number of process restarts before the request was sent.
    pub process_run: u32,
    pub check: String,
    pub attempt: usize,
    pub at: Timestamp,
    pub body: Vec<u8>,
    /// The response and its time. `None`: the response is pending, or the process was killed before it arrived.
    pub response: Option<(ResponseResult, Timestamp)>,
}

/// A request that waits for its response.
struct PendingRequest {
    post: usize,
    until: Timestamp,
    response_sender: oneshot::Sender<ResponseResult>,
}

pub struct Receivers {
    clock: Arc<ManualClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    behaviors: Vec<ReceiverBehavior>,
    posts: Vec<Post>,
    pending: Vec<PendingRequest>,
    process_run: u32,
}

impl Receivers {
    pub fn new(clock: Arc<ManualClock>) -> Self {
        let state = State { behaviors: vec![ReceiverBehavior::Responds(200); HOSTS], ..State::default() };
        Receivers { clock, state: Mutex::new(state) }
    }

    pub fn url(host: usize) -> String {
        format!("https://{host}.example/hook?token=secret")
    }

    pub fn set_behavior(&self, host: usize, behavior: ReceiverBehavior) {
        self.state.lock().behaviors[host] = behavior;
    }

    pub fn posts(&self) -> Vec<Post> {
        self.state.lock().posts.clone()
    }

    pub fn process_run(&self) -> u32 {
        self.state.lock().process_run
    }

    /// Returns the number of requests that wait for a response.
    pub fn pending_count(&self) -> u64 {
        u64::try_from(self.state.lock().pending.len()).unwrap()
    }

    /// Returns the earliest time at which a pending request times out.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        self.state.lock().pending.iter().map(|pending| pending.until).min()
    }

    pub fn time_out_requests(&self) {
        let now = self.clock.now();
        self.respond_where(|pending| pending.until <= now, Err(TransportError::Timeout));
    }

    pub fn respond_to_all(&self, status: u16) {
        self.respond_where(|_| true, Ok(status));
    }

    fn respond_where(&self, predicate: impl Fn(&PendingRequest) -> bool, response: ResponseResult) {
        let mut state = self.state.lock();
        let (selected, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending).into_iter().partition(predicate);
        state.pending = pending;
        for request in selected {
            state.posts[request.post].response = Some((response, self.clock.now()));
            request.response_sender.send(response).unwrap();
        }
    }

    /// Drops the pending requests of the process that was killed.
    pub fn process_restarted(&self) {
        let mut state = self.state.lock();
        state.pending.clear();
        state.process_run += 1;
    }

    /// Records a request. `Ok`: the receiver responds at once. `Err`: the receiver hangs, and the channel receives the
    /// response later.
    fn accept_request(&self, request: &OutboundRequest) -> Result<ResponseResult, oneshot::Receiver<ResponseResult>> {
        let now = self.clock.now();
        let host: usize = request.url.authority().split('.').next().unwrap().parse().unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let header = |name| request.headers.iter().find(|(header, _)| *header == name).unwrap().1.clone();
        let mut state = self.state.lock();
        let response = match state.behaviors[host] {
            ReceiverBehavior::Responds(status) => Some(Ok(status)),
            ReceiverBehavior::Unreachable => Some(Err(TransportError::Connection)),
            ReceiverBehavior::Hangs => None,
        };
        let post = Post {
            process_run: state.process_run,
            check: body["check_id"].as_str().or(body["verification_id"].as_str()).unwrap().to_owned(),
            attempt: header("x-service-callback-attempt").parse().unwrap(),
            at: now,
            body: request.body.clone(),
            response: response.map(|response| (response, now)),
        };
        state.posts.push(post);
        response.ok_or_else(|| {
            let (response_sender, response_receiver) = oneshot::channel();
            let post = state.posts.len() - 1;
            state.pending.push(PendingRequest { post, until: now + ATTEMPT_TIMEOUT, response_sender });
            response_receiver
        })
    }
}

#[async_trait]
impl Transport for Receivers {
    async fn get(&self, _: &ringtrue_domain::web_url::CallbackUrl) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }

    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        let response = match self.accept_request(&request) {
            Ok(response) => response,
            Err(response_receiver) => response_receiver.await.unwrap_or(Err(TransportError::Connection)),
        };
        response.map(|status| OutboundResponse { status, headers: vec![], body: vec![] })
    }
}
