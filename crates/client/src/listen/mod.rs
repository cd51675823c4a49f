//! `ringtrue listen`: a callback receiver for development.
//!
//! Prints every callback, verifies its signature and explains failures. It needs only the server's public keys.
//! Callbacks are printed with phone numbers, but their bodies are not stored.
//!
//! With a profile, missed callbacks are replayed (see [`mod@resume`]), and duplicates are acknowledged but not printed.
//! Without a profile, duplicates are printed, because developers want to see retries.
//!
//! With `--project`, callbacks arrive over a connection to the server instead (see [`mod@stream`]).
//!
//! TLS is deliberately not supported.

mod receiver;
mod report;
mod resume;
mod stream;
mod verification;

use std::{
    convert::Infallible,
    fmt::Write as _,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::tenancy::{Mode, ProjectId};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

pub(crate) use self::{receiver::BackgroundReceiver, resume::ListenJournal};
use self::{
    receiver::{CallbackReceiver, ForwardTarget, MAX_CONNECTIONS, bind},
    report::{CallbackCounts, ListenEvent},
    resume::MissedCallbackReplay,
    stream::{ProjectCallbackStream, callback_url_to_sign},
    verification::KeySet,
};
use crate::{
    api::ApiSession,
    argument_values::SecureUrl,
    arguments::{ListenArguments, ProfileOption},
    context::ClientContext,
    error::CommandError,
    http::HttpClient,
    printer::Printer,
    profile::{Profile, resolve_profile},
    request_log::resolve_project,
    system::{Signals, now},
};

/// Maximum time after a stop signal for requests in flight to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn listen(context: &ClientContext, arguments: ListenArguments) -> Result<(), CommandError> {
    let mut signals = Signals::listen().map_err(CommandError::other)?;
    if let Some(project) = arguments.project {
        return listen_to_project(context, arguments, project, signals).await;
    }
    let printer = context.printer;
    let (keys, session, journal) = match &arguments.profile {
        Some(profile) => {
            let session =
                ApiSession::open(context, &ProfileOption { profile: Some(profile.clone()) })?.with_background_reads();
            // Uses the session's HTTP client, because the server of a profile may need extra CA certificates.
            let keys = KeySet::new(session.profile.jwks_url().map_err(CommandError::other)?, session.http.clone());
            (keys, Some(session), Some(Arc::new(ListenJournal::open(context, profile, now())?)))
        }
        None => (KeySet::new(key_set_url(&arguments)?, new_http_client()?), None, None),
    };
    let (listener, address) = bind(arguments.listen).await?;
    print_startup(printer, &arguments, address, &keys).await?;

    let (sender, mut events) = mpsc::channel(MAX_CONNECTIONS);
    let max_callbacks = arguments.once.map(|count| u64::from(count.get()));
    let include_unverified = arguments.forward_unverified;
    let receiver = Arc::new(CallbackReceiver {
        keys,
        mode: expected_mode(&arguments),
        port: Some(address.port()),
        response_status: arguments.answer,
        forward: match arguments.forward {
            Some(url) => Some(ForwardTarget { url, http: new_http_client()?, include_unverified }),
            None => None,
        },
        journal: journal.clone(),
        events: sender,
    });
    let mut sink = EventSink { printer, journal: journal.clone(), counts: CallbackCounts::default() };
    {
        let mut accepting = pin!(receiver.accept_connections(listener));
        // Resends are requested only now, when the listener can receive them.
        let mut replay = pin!(request_missed_callbacks(session, journal));
        while max_callbacks.is_none_or(|max_callbacks| sink.counts.callbacks() < max_callbacks) {
            tokio::select! {
                () = signals.wait_for_stop() => break,
                Some(event) = events.recv() => sink.handle(event)?,
                ended = &mut replay => match ended? {},
                never = &mut accepting => match never {},
            }
        }
    }
    sink.drain(events).await
}

/// Receives the callbacks of a project over a connection to the server.
async fn listen_to_project(
    context: &ClientContext,
    arguments: ListenArguments,
    project: Option<ProjectId>,
    mut signals: Signals,
) -> Result<(), CommandError> {
    let printer = context.printer;
    let profile_option = ProfileOption { profile: arguments.profile.clone() };
    let session = ApiSession::open(context, &profile_option)?.with_background_reads();
    let project = resolve_project(&session, project).await?;
    let profile = resolve_profile(context, &profile_option)?;
    let journal = Arc::new(ListenJournal::open_for_project(context, &profile, &project, now())?);
    let mut text = format!("\n  project        {project}\n");
    if let Some(to) = &arguments.forward {
        let _ = writeln!(text, "  forwarded to   {}", callback_url_to_sign(to));
    }
    text.push_str(if journal.is_in_memory() {
        "  resumes        no: another `ringtrue listen` is listening to this project\n"
    } else {
        "  resumes        callbacks from while you are not listening, up to 24 hours\n"
    });
    text.push_str("  To stop        Ctrl+C\n");
    printer.print_status(&text)?;

    let (sender, mut events) = mpsc::channel(MAX_CONNECTIONS);
    let max_callbacks = arguments.once.map(|count| u64::from(count.get()));
    let receiver = CallbackReceiver {
        keys: KeySet::new(session.profile.jwks_url().map_err(CommandError::other)?, session.http.clone()),
        mode: Mode::Sandbox,
        port: None,
        response_status: None,
        forward: match &arguments.forward {
            Some(url) => Some(ForwardTarget {
                url: url.clone(),
                http: new_http_client()?,
                include_unverified: arguments.forward_unverified,
            }),
            None => None,
        },
        journal: Some(Arc::clone(&journal)),
        events: sender,
    };
    let mut sink = EventSink { printer, journal: Some(Arc::clone(&journal)), counts: CallbackCounts::default() };
    let callback_url_to_sign = arguments.forward.as_ref().map(callback_url_to_sign);
    let stream =
        ProjectCallbackStream { session, project, callback_url_to_sign, journal, receiver: Arc::new(receiver) };
    {
        let mut receiving = pin!(stream.run());
        while max_callbacks.is_none_or(|max_callbacks| sink.counts.callbacks() < max_callbacks) {
            tokio::select! {
                () = signals.wait_for_stop() => break,
                Some(event) = events.recv() => sink.handle(event)?,
                ended = &mut receiving => match ended? {},
            }
        }
    }
    sink.drain(events).await
}

/// Requests resends of missed callbacks. Without a profile, waits forever.
async fn request_missed_callbacks(
    session: Option<ApiSession>,
    journal: Option<Arc<ListenJournal>>,
) -> Result<Infallible, CommandError> {
    match (session, journal) {
        (Some(session), Some(journal)) => MissedCallbackReplay::new(session, journal).run().await,
        _ => std::future::pending().await,
    }
}

fn new_http_client() -> Result<HttpClient, CommandError> {
    HttpClient::new(None).map_err(CommandError::other)
}

/// Prints and journals callbacks, one at a time.
struct EventSink {
    printer: Printer,
    journal: Option<Arc<ListenJournal>>,
    counts: CallbackCounts,
}

impl EventSink {
    /// Prints and journals a callback. The receiver sends its response only after that.
    fn handle(&mut self, mut event: ListenEvent) -> Result<(), CommandError> {
        self.counts.count_and_print(self.printer, &event)?;
        if let ListenEvent::Callback(callback) = &mut event {
            if let (Some(journal), Some(entry)) = (&self.journal, callback.entry.take()) {
                journal.record(entry)?;
            }
            if let Some(journaled) = callback.journaled.take() {
                // Sending fails if the caller has disconnected: the request handler, which waits for this signal, is
                // then gone.
                let _ = journaled.send(());
            }
        }
        Ok(())
    }

    /// Handles the callbacks of requests in flight. The channel closes with the last of these requests.
    async fn drain(mut self, mut events: mpsc::Receiver<ListenEvent>) -> Result<(), CommandError> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while let Ok(Some(event)) = timeout_at(deadline, events.recv()).await {
            self.handle(event)?;
        }
        Ok(self.printer.print_status(&format!("\n{}", self.counts.render_summary()))?)
    }
}

async fn print_startup(
    printer: Printer,
    arguments: &ListenArguments,
    address: SocketAddr,
    keys: &KeySet,
) -> Result<(), CommandError> {
    let url = keys.url();
    let loaded = match keys.fetch().await {
        Ok(keys) => format!("{} from {url}", keys.len()),
        Err(error) => format!("none yet: {url}: {error}. Retrying at the first callback."),
    };
    let target = arguments.forward.as_ref().filter(|to| to.has_path()).map_or("/callbacks", SecureUrl::request_target);
    let mut text =
        format!("\n  callback_url   http://{}{target}\n  keys           {loaded}\n", reachable_address(address));
    if expected_mode(arguments) == Mode::Sandbox {
        text.push_str("  accepted       callbacks of live and sandbox checks\n");
    }
    if let Some(to) = &arguments.forward {
        let which = if arguments.forward_unverified { ", including invalid signatures" } else { "" };
        let _ = writeln!(text, "  forwarded to   {to}{which}");
    }
    if let Some(profile) = &arguments.profile {
        let _ = writeln!(text, "  resumes        profile `{profile}`: missed callbacks are resent");
    }
    text.push_str("  To stop        Ctrl+C\n");
    Ok(printer.print_status(&text)?)
}

/// Replaces an unspecified address, such as `0.0.0.0`, with the loopback address.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        ip if ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the mode of callbacks to accept. `ringtrue dev` has only sandbox projects. For other servers, sandbox
/// callbacks need `--accept-sandbox`.
fn expected_mode(arguments: &ListenArguments) -> Mode {
    let is_dev = arguments.jwks.is_none() && arguments.profile.is_none();
    if is_dev || arguments.accept_sandbox { Mode::Sandbox } else { Mode::Live }
}

/// Returns the URL of the public keys: that of `--jwks`, or of the server that `ringtrue dev` runs.
fn key_set_url(arguments: &ListenArguments) -> Result<SecureUrl, CommandError> {
    if let Some(jwks) = &arguments.jwks {
        return Ok(jwks.clone());
    }
    let path = arguments.data.join("dev.json");
    let not_found = |error: String| {
        CommandError::failed(
            format!("cannot locate the public keys: {}: {error}", path.display()),
            "Start `ringtrue dev`, set its data directory with --data DIR, or set a key set with --jwks URL.",
        )
    };
    let profile = Profile::read_dev_file(&path).map_err(not_found)?;
    profile.jwks_url().map_err(|error| not_found(error.to_string()))
}
