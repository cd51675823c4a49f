//! Where secrets come from: the environment, standard input, or someone who types them unseen.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::profile::Secret;
use crate::{
    cli::{desk::Desk, failure::Failure, signals::Signals},
    config::CLIENT_SECRET,
};

/// Longer than any secret, and than what may stand around it.
const MOST_INPUT: u64 = 1_024;

/// The secret of a client.
pub(super) async fn client_secret(desk: &Desk, client_id: &str) -> Result<Secret, Failure> {
    if let Some(secret) = desk.environment.text(CLIENT_SECRET)?.filter(|secret| !secret.is_empty()) {
        return Ok(Secret::new(secret.to_owned()));
    }
    let prompt = format!("Client secret of {client_id}: ");
    let typed = if io::stdin().is_terminal() { typed(prompt).await? } else { piped()? };
    let secret = typed.trim();
    if secret.is_empty() {
        return Err(Failure::refused(
            "there is no client secret",
            format!("Type it when you are asked, pipe it in, or set {CLIENT_SECRET}."),
        ));
    }
    Ok(Secret::new(secret.to_owned()))
}

fn piped() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().lock().take(MOST_INPUT).read_to_string(&mut text).map_err(|problem| unread(&problem))?;
    Ok(text)
}

/// Asks on the terminal. Whoever gives up there has an echo again.
async fn typed(prompt: String) -> Result<String, Failure> {
    let mut signals = Signals::listen().map_err(|problem| unread(&problem))?;
    let unseen = Unseen::begin().map_err(|problem| unread(&problem))?;
    let reading = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr().lock();
        err.write_all(prompt.as_bytes())?;
        err.flush()?;
        let mut line = String::new();
        io::stdin().lock().take(MOST_INPUT).read_line(&mut line)?;
        Ok(line)
    });
    let read = tokio::select! {
        read = reading => read.map_err(io::Error::other).and_then(|read| read).map_err(|problem| unread(&problem)),
        () = signals.stop() => Err(Failure::refused("interrupted", "Nothing was changed.")),
    };
    drop(unseen);
    read
}

/// While it is there, the terminal does not show what is typed.
struct Unseen(Termios);

impl Unseen {
    fn begin() -> io::Result<Self> {
        let usual = tcgetattr(io::stdin())?;
        let mut unseen = usual.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        unseen.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &unseen)?;
        Ok(Unseen(usual))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn unread(problem: &io::Error) -> Failure {
    Failure::refused(
        format!("standard input cannot be read: {problem}"),
        format!("Pipe the secret in, or set {CLIENT_SECRET}."),
    )
}
