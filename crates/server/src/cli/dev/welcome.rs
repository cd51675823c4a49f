//! What `ringtrue dev` says once it is ready.

use std::path::Path;

use super::demo::Demo;

/// A simulated number that matches: its last digit is even.
const NUMBER: &str = "+990123456700";

/// Where to go, with what, and commands to paste: a first check, the Management API, and the same with less to type.
pub(super) fn text(demo: &Demo, file: &Path, binary: &Path) -> String {
    let Demo { base_url, workspace, project, console } = demo;
    let workspace_id = &workspace.workspace_id;
    let [workspace_login, project_login] = [&workspace.credential, &project.credential];
    let [manage, verify] = [workspace_login, project_login]
        .map(|login| format!("-u {}:{} -d grant_type=client_credentials", login.client_id, login.client_secret));
    // Nothing but a shell is needed to take the token out of its answer.
    let token = r#"sed 's/.*"access_token":"\([^"]*\)".*/\1/'"#;
    let member = r#"sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/""#;
    let code = r#"sed 's/.*"code":"\([^"]*\)".*/\1/'"#;
    let (binary, folder) = (word(binary), word(file.parent().unwrap_or(file)));
    format!(
        "
  Ringtrue is ready at {base_url}

  Console         {console}
                  (signs you in, once and within the hour)

  Workspace       {workspace_id}
  client id       {}
  client secret   {}

  Project         {}  (sandbox: no real operator is reached)
  client id       {}
  client secret   {}

  A first check. In a second terminal, a receiver for its callback:

    {binary} listen --data {folder}

  In a third, a token for Reverse SMS and the check; then the SMS, from a simulated phone; then the result:

    checks={base_url}/v1/number-verification/reverse-sms-checks json='Content-Type: application/json'
    token=$(curl -s {verify} -d scope=reverse_sms {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\", \"callback_url\": \"http://127.0.0.1:9099/callbacks\"}}' $checks)
    of() {{ echo \"$check\" | {member}; }}
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"from\\\": \\\"{NUMBER}\\\", \\\"to\\\": \\\"$(of receiver_phone_number)\\\", \\\"body\\\": \\\"$(of expected_sms_body)\\\"}}\" {base_url}/v1/sandbox/inbound-sms
    curl -H \"Authorization: Bearer $token\" $checks/$(of check_id)

  A silent check: what a phone does over mobile data, `curl -L` does here, and the code at the end is redeemed:

    checks={base_url}/v1/number-verification/secure-sna-checks
    token=$(curl -s {verify} -d scope=secure_sna {base_url}/oauth2/token | {token})
    check=$(curl -s -H \"Authorization: Bearer $token\" -H \"$json\" -d '{{\"phone_number\": \"{NUMBER}\"}}' $checks)
    code=$(curl -sL \"$(of url)\" | {code})
    curl -H \"Authorization: Bearer $token\" -H \"$json\" -d \"{{\\\"code\\\": \\\"$code\\\"}}\" $checks/$(of check_id)

  A token for the Management API, and your projects:

    token=$(curl -s {manage} -d scope=management {base_url}/oauth2/token | {token})
    curl -H \"Authorization: Bearer $token\" {base_url}/v1/management/workspaces/{workspace_id}/projects

  The same with less to type, by commands that speak to the API for you:

    {binary} login --data {folder}
    {binary} reverse-sms create {NUMBER} --callback-url http://127.0.0.1:9099/callbacks
    {binary} trigger

  API reference   {base_url}/docs
  For scripts     {}
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

/// A path as a shell takes it.
fn word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|symbol| symbol.is_alphanumeric() || "/._-+:@".contains(symbol));
    if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_take_them_apart() {
        for (path, quoted) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(word(Path::new(path)), quoted);
        }
    }
}
