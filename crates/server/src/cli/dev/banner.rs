//! Banner that `ringtrue dev` prints when it is ready.

use std::path::Path;

use super::demo_workspace::DemoWorkspace;

/// Simulated number that matches, because its last digit is even.
const NUMBER: &str = "+990123456700";

/// Renders the URLs, the credentials and example commands.
pub(super) fn render(demo: &DemoWorkspace, file: &Path, binary: &Path) -> String {
    let DemoWorkspace { base_url, workspace, project, console_url } = demo;
    let workspace_id = &workspace.workspace_id;
    let [workspace_login, project_login] = [&workspace.credential, &project.credential];
    let [manage, verify] = [workspace_login, project_login]
        .map(|login| format!("-u {}:{} -d grant_type=client_credentials", login.client_id, login.client_secret));
    // `sed` instead of `jq`: the examples need only a POSIX shell and `curl`.
    let token = r#"sed 's/.*"access_token":"\([^"]*\)".*/\1/'"#;
    let member = r#"sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/""#;
    let code = r#"sed 's/.*"code":"\([^"]*\)".*/\1/'"#;
    let (binary, folder) = (shell_quote(binary), shell_quote(file.parent().unwrap_or(file)));
    format!(
        "
  Ringtrue is ready at {base_url}

  Console         {console_url}
                  (single-use sign-in link, valid for an hour)

  Workspace       {workspace_id}
  client id       {}
  client secret   {}

  Project         {}  (sandbox: no real operator is contacted)
  client id       {}
  client secret   {}

  First check. In a second terminal, start a callback receiver:

    {binary} listen --data {folder}

  In a third terminal, get a token, create a Reverse SMS check, send its SMS from a simulated phone and read the result:

    checks={base_url}/v1/number-verification/reverse-sms-checks json='Content-Type: application/json'
    token=$(curl -s {verify} -d scope=reverse_sms {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\", \"callback_url\": \"http://127.0.0.1:9099/callbacks\"}}' $checks)
    of() {{ echo \"$check\" | {member}; }}
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"from\\\": \\\"{NUMBER}\\\", \\\"to\\\": \\\"$(of receiver_phone_number)\\\", \\\"body\\\": \\\"$(of expected_sms_body)\\\"}}\" {base_url}/v1/sandbox/inbound-sms
    curl -H \"Authorization: Bearer $token\" $checks/$(of check_id)

  Silent check. `curl -L` stands in for the phone's browser on mobile data; then redeem the code:

    checks={base_url}/v1/number-verification/secure-sna-checks
    token=$(curl -s {verify} -d scope=secure_sna {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\"}}' $checks)
    code=$(curl -sL \"$(of url)\" | {code})
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"code\\\": \\\"$code\\\"}}\" $checks/$(of check_id)

  Management API: get a token and list your projects:

    token=$(curl -s {manage} -d scope=management {base_url}/oauth2/token | {token})
    curl -H \"Authorization: Bearer $token\" {base_url}/v1/management/workspaces/{workspace_id}/projects

  The same with the API client commands:

    {binary} login --data {folder}
    {binary} reverse-sms create {NUMBER} --callback-url http://127.0.0.1:9099/callbacks
    {binary} trigger

  API reference   {base_url}/docs
  Script file     {}
  To stop         Ctrl+C

",
        workspace_login.client_id,
        workspace_login.client_secret,
        project.project_id,
        project_login.client_id,
        project_login.client_secret,
        file.display(),
    )
}

/// Quotes a path for a POSIX shell if needed.
fn shell_quote(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|character| character.is_alphanumeric() || "/._-+:@".contains(character));
    if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_special_characters_are_quoted() {
        for (path, quoted) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(shell_quote(Path::new(path)), quoted);
        }
    }
}
