//! `ringtrue package-files`: generates the manual pages and completion scripts for a Linux package.

use std::{fs, io, path::Path};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{
    arguments::{Arguments, PackageFilesArguments},
    completion,
    error::CliError,
};

/// Paths below /usr/share at which Debian's shells look for completion scripts.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/ringtrue"),
    (Shell::Zsh, "zsh/vendor-completions/_ringtrue"),
    (Shell::Fish, "fish/vendor_completions.d/ringtrue.fish"),
];

/// Appended to the zsh script. zsh runs the file as the function `_ringtrue` at the first completion, but the script
/// itself only defines the completer. This line runs the completer.
const ZSH_FIRST_COMPLETION: &str = "\n[[ $funcstack[1] = _ringtrue ]] && _clap_dynamic_completer_ringtrue \"$@\"\n";

pub(super) fn write(PackageFilesArguments { dir, binary }: &PackageFilesArguments) -> Result<(), CliError> {
    write_manual(&dir.join("man/man1"))?;
    for (shell, path) in COMPLETIONS {
        let mut script = completion::render_script(shell, binary)?;
        if shell == Shell::Zsh {
            script.push_str(ZSH_FIRST_COMPLETION);
        }
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, script)?;
    }
    Ok(())
}

/// Writes a manual page for each command that is not hidden.
fn write_manual(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Arguments::command(), dir)
}
