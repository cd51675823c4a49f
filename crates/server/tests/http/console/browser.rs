//! Minimal browser: stores cookies and submits forms. Tests follow redirects themselves.

use std::{collections::BTreeMap, net::SocketAddr};

use ringtrue_domain::{account::Role, tenancy::WorkspaceId};
use ringtrue_engine::{
    accounts::{MemberError, RequestCause, SessionToken},
    actor::Administrator,
};

use crate::{
    client::{self, HttpResponse, Request},
    world::{Tenant, World},
};

pub const PASSWORD: &str = "correct horse battery staple";

#[derive(Clone)]
pub struct Browser {
    pub address: SocketAddr,
    pub cookies: BTreeMap<String, String>,
}

impl Browser {
    pub fn new(world: &World) -> Self {
        Browser { address: world.node.address, cookies: BTreeMap::new() }
    }

    /// Signs in as an administrator.
    pub async fn admin(world: &World) -> Self {
        let operator = Administrator::of_command_line();
        let link =
            world.node.engine.accounts.invite_admin(&operator, &"root@example.com".parse().unwrap()).await.unwrap();
        Browser::with_link(world, &link.path).await
    }

    /// Signs in as a member of a workspace.
    pub async fn member(world: &World, tenant: &Tenant, role: Role) -> Self {
        Browser::member_with_email(world, tenant, &format!("{role}.{}@example.com", &tenant.workspace_id), role).await
    }

    pub async fn member_with_email(world: &World, tenant: &Tenant, email: &str, role: Role) -> Self {
        let workspace: WorkspaceId = tenant.workspace_id.parse().unwrap();
        let (email, engine) = (email.parse().unwrap(), &world.node.engine);
        let link = match engine.accounts.invite_member_as_operator(workspace, &email, role).await {
            Err(MemberError::AlreadyMember) => {
                let operator = Administrator::of_command_line();
                let account = engine.accounts.account_id_by_email(&operator, &email).await.unwrap();
                engine.accounts.create_password_reset_link(&operator, account).await.unwrap()
            }
            invited => invited.unwrap(),
        };
        Browser::with_link(world, &link.path).await
    }

    /// Opens a link, sets a password and signs in. If the link is an invitation, accepts it.
    pub async fn with_link(world: &World, path: &str) -> Self {
        let mut browser = Browser::new(world);
        let response = browser.choose_password(path).await;
        let next = location(&response).to_owned();
        if let Some(token) = path.strip_prefix("/console/invitation?token=") {
            let page = browser.get(&next).await.assert(200).text();
            let email = page.split("name=\"email\"").nth(1).and_then(|rest| rest.split("value=\"").nth(1)).unwrap();
            let email = email.split('"').next().unwrap().to_owned();
            let fields = [("email", &*email), ("password", PASSWORD), ("next", path)];
            assert_eq!(location(&browser.submit(&next, "/console/sign-in", &fields).await), path);
            // Accepts the invitation through the engine instead of the form, because users who still have to set up a
            // second factor cannot use the form.
            let accounts = &world.node.engine.accounts;
            let session = browser.cookies.iter().find(|(name, _)| name.ends_with("ringtrue-session")).unwrap().1;
            let session = SessionToken::parse(session).unwrap();
            let user = accounts.authenticate_session(&session, RequestCause::User).await.unwrap().unwrap();
            accounts.accept_invitation(&user, token, None).await.unwrap();
        }
        browser
    }

    pub async fn choose_password(&mut self, path: &str) -> HttpResponse {
        let (action, token) = path.split_once("?token=").unwrap();
        self.submit(path, action, &[("token", token), ("password", PASSWORD), ("again", PASSWORD)]).await
    }

    pub async fn send(&mut self, request: Request) -> HttpResponse {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header("Cookie", cookies.join("; ")) };
        let response = client::send(self.address, &request).await;
        for (_, value) in response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, rest) = value.split_once('=').unwrap();
            let (value, attributes) = rest.split_once(';').unwrap_or((rest, ""));
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    pub async fn get(&mut self, path: &str) -> HttpResponse {
        self.send(Request::get(path)).await
    }

    /// Submits a form with the CSRF token of a page.
    pub async fn submit(&mut self, page: &str, action: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let token = self.form_token(page).await;
        self.post(action, &token, fields).await
    }

    /// Submits a form, and opens the page that it redirects to.
    pub async fn submit_and_follow(&mut self, page: &str, action: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let response = self.submit(page, action, fields).await;
        self.get(location(&response)).await
    }

    pub async fn post(&mut self, action: &str, token: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let fields: Vec<_> = [("form_token", token)].iter().chain(fields).copied().collect();
        self.send(Request::post(action).form(&fields)).await
    }

    /// Submits a form with a file and the CSRF token of a page, in the encoding that browsers use for files.
    pub async fn submit_file(
        &mut self,
        page: &str,
        action: &str,
        fields: &[(&str, &str)],
        (name, file): (&str, &[u8]),
    ) -> HttpResponse {
        let token = self.form_token(page).await;
        let mut body = vec![];
        for (name, value) in [("form_token", &*token)].iter().chain(fields) {
            let head = format!("--x--y\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend([head.as_bytes(), value.as_bytes(), b"\r\n"].concat());
        }
        let head = format!(
            "--x--y\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n"
        );
        body.extend([head.as_bytes(), file, b"\r\n--x--y--\r\n"].concat());
        self.send(Request::post(action).body("multipart/form-data; boundary=x--y", body)).await
    }

    /// Returns the CSRF token of a page.
    pub async fn form_token(&mut self, page: &str) -> String {
        let text = self.get(page).await.assert(200).text();
        let mark = "name=\"form_token\" value=\"";
        let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("{page} has no form: {text}"));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Returns the target of a redirect.
pub fn location(response: &HttpResponse) -> &str {
    assert_eq!(response.status, 303, "{}", response.text());
    response.header("location").unwrap()
}
