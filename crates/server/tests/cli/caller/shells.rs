//! Completion in shells.

use std::{fs, process::Command};

use super::World;

#[test]
fn scripts_know_the_commands() {
    let world = World::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&format!("completion {shell}")).expect_code(0).text();
        for word in [
            "reverse-sms",
            "secure-sna",
            "callbacks",
            "resend",
            "--since",
            "tail",
            "selftest",
            "rotate",
            "--output",
            "csv",
        ] {
            // Fish writes long options without their dashes.
            assert!(script.contains(word.trim_start_matches('-')), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_completes() {
    let world = World::empty();
    let script = world.path("completion.bash");
    fs::write(&script, world.run("completion bash").expect_code(0).text()).unwrap();
    let complete = "source completion.bash && COMP_WORDS=(ringtrue reverse) COMP_CWORD=1 \
                    && _ringtrue ringtrue reverse ringtrue && echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", complete]).current_dir(world.path("")).output().expect("bash runs");
    let (said, problems) = (String::from_utf8_lossy(&bash.stdout), String::from_utf8_lossy(&bash.stderr));
    assert_eq!(said.trim(), "reverse-sms", "{problems}");
}
