//! The command `ringtrue open`, which opens pages of the server in a browser.

use std::{
    io::{self, IsTerminal},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    thread,
};

use serde_json::json;
use url::Url;

use crate::{
    api::ApiSession,
    arguments::{OpenArguments, ServerPage},
    context::ClientContext,
    error::CommandError,
    printer::{self, Output},
};

const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

pub(crate) fn open(context: &ClientContext, arguments: &OpenArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let url = session.url(&[page_path(arguments.page)], &[]);
    if context.printer.output == Output::Table {
        printer::print_text(url.as_str())?;
    } else {
        context.printer.print_record(vec![("url", json!(url.as_str()))])?;
    }
    // If standard output is not a terminal, the caller is a script, which needs only the URL.
    if !arguments.print && io::stdout().is_terminal() {
        open_in_browser(&url);
    }
    Ok(())
}

fn page_path(page: ServerPage) -> &'static str {
    match page {
        ServerPage::Console => "console",
        ServerPage::Docs => "docs",
        ServerPage::Errors => "errors",
        ServerPage::Openapi => "openapi.json",
    }
}

/// Opens a URL in a browser. Does nothing on a machine without a desktop: the URL is already printed.
fn open_in_browser(url: &Url) {
    let mut command = Command::new(OPENER);
    // The browser gets its own process group, so that Ctrl+C in the terminal does not close it.
    command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    if let Ok(mut opener) = command.spawn() {
        thread::spawn(move || opener.wait());
    }
}
