//! `ringtrue tail`: new checks and what becomes of them, as it happens.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    arguments::{TailArguments, WITH_CHECKS},
    follow::Follower,
    session::Session,
    upstream::open_products,
};
use crate::cli::{desk::Desk, failure::Failure, printer, signals::Signals};

const COLUMNS: [&str; 10] = [
    "product",
    "check_id",
    "status",
    "match",
    "no_sim_change",
    "network_id",
    "error_code",
    "reference_id",
    "created_at",
    "updated_at",
];
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) async fn tail(desk: &Desk, arguments: TailArguments) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let session = Session::open(desk, &arguments.identity)?;
    let among = if arguments.product.is_empty() { &WITH_CHECKS[..] } else { &arguments.product };
    let following = async {
        let products = open_products(&session, among).await?;
        let mut followers: Vec<Follower> =
            products.into_iter().map(|product| Follower::new(product, arguments.search.clone())).collect();
        let mut line = Line { desk, is_first: true };
        // What is wrong with the search or with the credential is said at once.
        look(&session, &mut followers, &mut line).await?;
        printer::remark("Following. To stop: Ctrl+C");
        let usual = Duration::from_secs(arguments.pace.interval);
        let mut pause = usual;
        loop {
            sleep(pause).await;
            match look(&session, &mut followers, &mut line).await {
                Ok(()) if pause > usual => {
                    printer::remark("The server answers again. Nothing was missed.");
                    pause = usual;
                }
                Ok(()) => {}
                Err(failure) if failure.may_pass() => {
                    if pause == usual {
                        printer::failure(&failure);
                        printer::remark("Trying on.");
                    }
                    let longer = (pause * 2).min(LONGEST_PAUSE.max(usual));
                    pause = failure.retry_after().map_or(longer, |wait| wait.clamp(longer, LONGEST_PAUSE.max(longer)));
                }
                Err(failure) => return Err(failure),
            }
        }
    };
    tokio::select! {
        ended = following => ended,
        () = signals.stop() => Ok(()),
    }
}

async fn look(session: &Session, followers: &mut [Follower], line: &mut Line<'_>) -> Result<(), Failure> {
    for follower in followers {
        let product = follower.product;
        for mut check in follower.look(session).await? {
            if let Some(members) = check.as_object_mut() {
                members.insert("product".to_owned(), json!(product.as_str()));
            }
            line.print(&check)?;
        }
    }
    Ok(())
}

struct Line<'a> {
    desk: &'a Desk,
    is_first: bool,
}

impl Line<'_> {
    fn print(&mut self, check: &Value) -> Result<(), Failure> {
        self.desk.printer.next_object(&COLUMNS, check, self.is_first)?;
        self.is_first = false;
        Ok(())
    }
}
