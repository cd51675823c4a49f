//! `ringtrue selftest`: the whole product against its own sandbox, by the doors that callers use.
//!
//! Without a profile it starts a server for itself, in a folder that is gone afterwards, whose clock it can move: a check
//! expires there without anybody waiting for it.

mod ground;
mod report;
mod trials;

use self::{ground::Ground, report::Report};
use super::arguments::SelftestArguments;
use crate::cli::{desk::Desk, failure::Failure};

pub(super) async fn selftest(desk: &Desk, arguments: &SelftestArguments) -> Result<(), Failure> {
    let mut report = Report::begin(desk.printer);
    let mut ground = match &arguments.profile {
        Some(profile) => Ground::of_profile(desk, profile, arguments.slow).await?,
        None => Ground::own().await?,
    };
    let tried = trials::all(&mut ground, &mut report).await;
    ground.leave().await;
    tried?;
    report.finish()
}
