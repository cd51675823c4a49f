//! Help text of `ringtrue` itself. It lists the commands in groups, which clap supports only for options.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::arguments::Arguments;

/// Titles of the groups and their commands. A test ensures that each command is in exactly one group.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Server",
        &[
            "dev",
            "serve",
            "config",
            "doctor",
            "migrate",
            "distribute",
            "backup",
            "restored",
            "export",
            "import",
            "selftest",
        ],
    ),
    ("Administration", &["workspaces", "console", "connectors", "keys", "erase"]),
    (
        "API client",
        &[
            "login",
            "logout",
            "profiles",
            "whoami",
            "token",
            "open",
            "verify",
            "verification",
            "reverse-sms",
            "secure-sna",
            "discovery",
            "sim-swap",
            "eligibility",
            "trigger",
            "tail",
            "listen",
            "callbacks",
            "projects",
            "credentials",
            "usage",
            "audit",
            "logs",
            "api",
        ],
    ),
    ("Other", &["completion", "help"]),
];

/// Returns the command line definition with the grouped help.
pub(super) fn command() -> Command {
    let mut command = Arguments::command();
    // Makes clap add the subcommand `help`.
    command.build();
    let (groups, options) = (render_groups(&command), render_heading(&command, "Options"));
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{options}\n{{options}}{{after-help}}");
    Arguments::command().help_template(template)
}

/// Renders the groups, with the first sentence of each command's description.
fn render_groups(command: &Command) -> String {
    let width = command.get_subcommands().map(|subcommand| subcommand.get_name().len()).max().unwrap_or(0);
    let literal = command.get_styles().get_literal();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{}\n", render_heading(command, title));
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let name = subcommand.get_name();
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let sentence = about.split(". ").next().unwrap_or_default().trim_end_matches('.');
            let _ =
                writeln!(text, "  {literal}{name}{literal:#}{:padding$}  {sentence}", "", padding = width - name.len());
        }
    }
    text
}

fn render_heading(command: &Command, title: &str) -> String {
    let header = command.get_styles().get_header();
    format!("{header}{title}:{header:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut built = Arguments::command();
        built.build();
        let mut names: Vec<&str> =
            built.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn help_lists_all_groups_options_and_exit_codes() {
        let help = command().render_help().to_string();
        for (title, names) in GROUPS {
            assert!(help.contains(&format!("\n{title}:\n  {}", names[0])), "{title}: {help}");
        }
        for part in ["Usage: ringtrue [OPTIONS] <COMMAND>", "\nOptions:\n", "--output <OUTPUT>", "\nExit codes:\n"] {
            assert!(help.contains(part), "{part}: {help}");
        }
        assert!(!help.contains('{') && !help.contains('}'), "{help}");
    }
}
