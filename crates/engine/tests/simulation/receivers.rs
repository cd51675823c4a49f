//! Receivers of callbacks that do as they are told, and remember what came.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::{Answer, Clock, ManualClock, Outgoing, Transport, Undelivered};
use serde_json::Value;
use tokio::sync::oneshot;

pub const HOSTS: usize = 4;
/// How long an attempt waits for its answer.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// What a receiver does with a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Answers(u16),
    IsDown,
    Hangs,
}

pub const BAD_MOODS: [Mood; 6] =
    [Mood::Answers(500), Mood::Answers(204), Mood::Answers(301), Mood::Answers(429), Mood::IsDown, Mood::Hangs];

pub type Reply = Result<u16, Undelivered>;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Post {
    /// Which life of the process sent it.
    pub life: u32,
    pub check: String,
    pub attempt: usize,
    pub at: Timestamp,
    pub body: Vec<u8>,
    /// `None`: whoever sent it still waits, or died waiting.
    pub answered: Option<(Reply, Timestamp)>,
}

/// An attempt that waits for its answer.
struct Hung {
    post: usize,
    until: Timestamp,
    answer: oneshot::Sender<Reply>,
}

pub struct Receivers {
    clock: Arc<ManualClock>,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    moods: Vec<Mood>,
    posts: Vec<Post>,
    hung: Vec<Hung>,
    life: u32,
}

impl Receivers {
    pub fn new(clock: Arc<ManualClock>) -> Self {
        let contents = Contents { moods: vec![Mood::Answers(200); HOSTS], ..Contents::default() };
        Receivers { clock, contents: Mutex::new(contents) }
    }

    pub fn url(host: usize) -> String {
        format!("https://{host}.example/hook?token=secret")
    }

    pub fn becomes(&self, host: usize, mood: Mood) {
        self.contents.lock().unwrap().moods[host] = mood;
    }

    pub fn posts(&self) -> Vec<Post> {
        self.contents.lock().unwrap().posts.clone()
    }

    pub fn life(&self) -> u32 {
        self.contents.lock().unwrap().life
    }

    /// How many wait for an answer.
    pub fn hung(&self) -> u64 {
        u64::try_from(self.contents.lock().unwrap().hung.len()).unwrap()
    }

    /// When the first of those who wait gives up.
    pub fn patience_ends(&self) -> Option<Timestamp> {
        self.contents.lock().unwrap().hung.iter().map(|hung| hung.until).min()
    }

    /// Those who have waited too long give up.
    pub fn run_out_of_patience(&self) {
        let now = self.clock.now();
        self.answer_those(|hung| hung.until <= now, Err(Undelivered::Timeout));
    }

    /// All who wait are answered.
    pub fn let_go(&self, status: u16) {
        self.answer_those(|_| true, Ok(status));
    }

    fn answer_those(&self, whom: impl Fn(&Hung) -> bool, reply: Reply) {
        let mut contents = self.contents.lock().unwrap();
        let (answered, hung) = std::mem::take(&mut contents.hung).into_iter().partition(whom);
        contents.hung = hung;
        let answered: Vec<Hung> = answered;
        for hung in answered {
            contents.posts[hung.post].answered = Some((reply, self.clock.now()));
            hung.answer.send(reply).unwrap();
        }
    }

    /// The process is gone, and another one comes: nobody waits any more.
    pub fn next_life(&self) {
        let mut contents = self.contents.lock().unwrap();
        contents.hung.clear();
        contents.life += 1;
    }

    /// Takes a request in. It is answered at once, or the answer will come that way.
    fn arrives(&self, request: &Outgoing) -> Result<Reply, oneshot::Receiver<Reply>> {
        let now = self.clock.now();
        let host: usize = request.url.authority().split('.').next().unwrap().parse().unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let header = |name| request.headers.iter().find(|(header, _)| *header == name).unwrap().1.clone();
        let mut contents = self.contents.lock().unwrap();
        let reply = match contents.moods[host] {
            Mood::Answers(status) => Some(Ok(status)),
            Mood::IsDown => Some(Err(Undelivered::Connection)),
            Mood::Hangs => None,
        };
        let post = Post {
            life: contents.life,
            check: body["check_id"].as_str().unwrap().to_owned(),
            attempt: header("x-service-callback-attempt").parse().unwrap(),
            at: now,
            body: request.body.clone(),
            answered: reply.map(|reply| (reply, now)),
        };
        contents.posts.push(post);
        reply.ok_or_else(|| {
            let (answer, waits) = oneshot::channel();
            let post = contents.posts.len() - 1;
            contents.hung.push(Hung { post, until: now + PATIENCE, answer });
            waits
        })
    }
}

#[async_trait]
impl Transport for Receivers {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered> {
        let reply = match self.arrives(&request) {
            Ok(reply) => reply,
            Err(waits) => waits.await.unwrap_or(Err(Undelivered::Connection)),
        };
        reply.map(|status| Answer { status, headers: vec![], body: vec![] })
    }
}
