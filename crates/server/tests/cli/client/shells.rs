//! Shell completion.

use std::{fs, process::Command};

use super::TestClient;

#[test]
fn scripts_contain_the_commands() {
    let client = TestClient::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = client.run(&format!("completion {shell}")).expect_code(0).text();
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
fn bash_completes_a_command() {
    let client = TestClient::empty();
    let script = client.path("completion.bash");
    fs::write(&script, client.run("completion bash").expect_code(0).text()).unwrap();
    let complete = "source completion.bash && COMP_WORDS=(ringtrue reverse) COMP_CWORD=1 \
                    && _ringtrue ringtrue reverse ringtrue && echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", complete]).current_dir(client.path("")).output().expect("bash runs");
    let (output, problems) = (String::from_utf8_lossy(&bash.stdout), String::from_utf8_lossy(&bash.stderr));
    assert_eq!(output.trim(), "reverse-sms", "{problems}");
}
