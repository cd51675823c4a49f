//! `ringtrue selftest`: tests all products against the sandbox through the public API.
//!
//! Without a profile it starts a temporary server with an adjustable clock, so that the expiry case need not wait.

mod cases;
mod fixture;
mod report;

use self::{fixture::SelftestFixture, report::Report};
use super::arguments::SelftestArguments;
use crate::cli::{context::CommandContext, error::CliError};

pub(super) async fn selftest(context: &CommandContext, arguments: &SelftestArguments) -> Result<(), CliError> {
    let mut report = Report::start(context.printer);
    let mut fixture = match &arguments.profile {
        Some(profile) => SelftestFixture::for_profile(context, profile, arguments.slow).await?,
        None => SelftestFixture::with_own_server().await?,
    };
    let result = cases::run_all(&mut fixture, &mut report).await;
    fixture.shut_down().await;
    result?;
    report.finish()
}
