//! What `ringtrue dev` says once it is ready.

use std::path::Path;

use super::demo::Demo;

/// Where to go, with what, and two commands to paste.
pub(super) fn text(demo: &Demo, file: &Path) -> String {
    let Demo { base_url, workspace, project } = demo;
    let workspace_id = &workspace.workspace_id;
    let [workspace_login, project_login] = [&workspace.credential, &project.credential];
    let [manage, verify] = [workspace_login, project_login]
        .map(|login| format!("-u {}:{} -d grant_type=client_credentials", login.client_id, login.client_secret));
    // Nothing but a shell is needed to take the token out of its answer.
    let token = r#"sed 's/.*"access_token":"\([^"]*\)".*/\1/'"#;
    format!(
        "
  Ringtrue is ready at {base_url}

  Workspace       {workspace_id}
  client id       {}
  client secret   {}

  Project         {}  (sandbox: no real operator is reached)
  client id       {}
  client secret   {}

  A token for Reverse SMS:

    curl {verify} -d scope=reverse_sms {base_url}/oauth2/token

  A token for the Management API, and your projects:

    token=$(curl -s {manage} -d scope=management {base_url}/oauth2/token | {token})
    curl -H \"Authorization: Bearer $token\" {base_url}/v1/management/workspaces/{workspace_id}/projects

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
