//! `ringtrue completion`, and the completions that a shell then requests.
//!
//! The shell's script runs this binary with [`VARIABLE`] set. Profile names come from the saved profiles. Projects come
//! from the server of the profile on the command line; if it is slow or unreachable, no projects are offered.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Arg, Command};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell, env::Shells};
use ringtrue_client::{ClientContext, ProfileName, list_profile_names, list_projects, printer};

use super::{error::CliError, help};

/// Environment variable with the name of the shell. The completion script sets it when it requests completions.
const VARIABLE: &str = "_RINGTRUE_COMPLETE";
/// Timeout for listing projects. Short, because the user waits for completions.
const PROJECTS_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Prints the script that registers this binary's completions with the shell.
pub(super) fn print_script(shell: Shell) -> Result<(), CliError> {
    let binary = env::current_exe().unwrap_or_else(|_| PathBuf::from("ringtrue"));
    Ok(printer::print_text(&render_script(shell, &binary)?)?)
}

/// Renders a completion script that calls the given binary.
pub(super) fn render_script(shell: Shell, binary: &Path) -> Result<String, CliError> {
    let shell = shell.to_string();
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell) else {
        return Err(CliError::usage(format!("no completion for {shell}"), "Use bash, zsh or fish."));
    };
    let mut script = vec![];
    completer.write_registration(VARIABLE, "ringtrue", "ringtrue", &binary.to_string_lossy(), &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Prints completions if a shell requests them. Returns whether a shell has requested them.
pub(super) fn complete(arguments: &[OsString], context: &ClientContext) -> clap::error::Result<bool> {
    let profile = profile_argument(arguments);
    let command = || add_candidates(help::command(), context, profile.as_ref());
    CompleteEnv::with_factory(command).var(VARIABLE).try_complete(arguments, env::current_dir().ok().as_deref())
}

/// Adds candidates to all arguments that take a profile or a project.
fn add_candidates(command: Command, context: &ClientContext, profile: Option<&ProfileName>) -> Command {
    let add = |argument: Arg| match argument.get_id().as_str() {
        "profile" => {
            let context = context.clone();
            argument.add(ArgValueCandidates::new(move || profiles(&context)))
        }
        "project" => {
            let (context, profile) = (context.clone(), profile.cloned());
            argument.add(ArgValueCandidates::new(move || projects(&context, profile.as_ref())))
        }
        _ => argument,
    };
    command.mut_args(add).mut_subcommands(|subcommand| add_candidates(subcommand, context, profile))
}

fn profiles(context: &ClientContext) -> Vec<CompletionCandidate> {
    list_profile_names(context).unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// Lists the project ids, with the names as descriptions.
fn projects(context: &ClientContext, profile: Option<&ProfileName>) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return vec![] };
    let listed =
        runtime.block_on(async { tokio::time::timeout(PROJECTS_TIMEOUT, list_projects(context, profile)).await });
    let Ok(Ok(projects)) = listed else { return vec![] };
    projects.into_iter().map(|(id, name)| CompletionCandidate::new(id).help(Some(name.into()))).collect()
}

/// Finds the value of `--profile` on the command line that is being completed.
fn profile_argument(arguments: &[OsString]) -> Option<ProfileName> {
    const OPTION: &str = "--profile";
    let joined = arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix(OPTION)?.strip_prefix('='));
    let separate = arguments.windows(2).filter(|pair| pair[0] == OPTION).filter_map(|pair| pair[1].to_str());
    joined.chain(separate).find_map(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_read_from_the_command_line() {
        let parse = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            profile_argument(&arguments).map(|name| name.to_string())
        };
        assert_eq!(parse("ringtrue usage --profile acme --project"), Some("acme".to_owned()));
        assert_eq!(parse("ringtrue usage --profile=acme --project"), Some("acme".to_owned()));
        assert_eq!(parse("ringtrue usage --project"), None);
        assert_eq!(parse("ringtrue usage --profile"), None);
    }
}
