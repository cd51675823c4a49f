//! Sends requests to the API of a server with the credentials of a profile: authentication, paged lists, and checks.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use ringtrue_domain::product::{Product, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use url::{Url, form_urlencoded};

use crate::{
    argument_values::ProfileName,
    arguments::{ListArguments, ProfileOption},
    context::ClientContext,
    error::{ApiProblem, CommandError},
    http::{HttpClient, HttpError, HttpResponse, StreamedResponse},
    printer::{self, Output, Printer},
    profile::{AccessToken, ClientCredential, Profile, ProfileStore, Secret, TokenCache, resolve_profile},
    progress::Progress,
    system::now,
};

/// Longer than the server's own request timeout, so that the server reports its timeouts.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The server leaves successful reads with this header out of the project's request log.
const BACKGROUND_HEADER: HeaderName = HeaderName::from_static("x-background-request");
pub(crate) const MAX_PAGE_SIZE: u32 = 100;
const RATE_LIMIT_WINDOW: Duration = Duration::from_secs(1);

/// Sends requests to the server of a profile. Also has the printer of the command that uses it.
#[derive(Debug)]
pub(crate) struct ApiSession {
    pub profile: Profile,
    pub http: HttpClient,
    pub printer: Printer,
    /// Whether a request that exceeds the rate limit is repeated in the next second instead of failing.
    pub waits_for_rate_limit: bool,
    /// Whether the command repeats its reads by itself.
    is_background: bool,
    /// Name of the profile, shown in hints.
    name: Option<ProfileName>,
    tokens: TokenCache,
}

/// One page of a list.
pub(crate) struct Page {
    pub content: Vec<Value>,
    pub pages: u64,
    pub total: u64,
}

#[derive(Deserialize)]
struct TokenBody {
    access_token: String,
    expires_in: i64,
}

impl ApiSession {
    pub(crate) fn open(context: &ClientContext, profile_option: &ProfileOption) -> Result<Self, CommandError> {
        let name = resolve_profile(context, profile_option)?;
        let profile = ProfileStore::open(context)?.require(&name)?;
        let tokens = TokenCache::for_profile(context, &name)?;
        Ok(ApiSession { name: Some(name), tokens, ..ApiSession::ephemeral(context, profile)? })
    }

    /// Opens a session whose tokens are cached in memory only.
    pub(crate) fn ephemeral(context: &ClientContext, profile: Profile) -> Result<Self, CommandError> {
        let http = HttpClient::new(profile.ca_file.as_deref()).map_err(|error| {
            CommandError::failed(error.to_string(), "Use a PEM file with certificates: --ca-file PATH")
        })?;
        Ok(ApiSession {
            profile,
            http,
            printer: context.printer,
            waits_for_rate_limit: false,
            is_background: false,
            name: None,
            tokens: TokenCache::default(),
        })
    }

    /// Keeps the reads of a command that repeats them from filling the project's request log.
    #[must_use]
    pub(crate) fn with_background_reads(self) -> Self {
        ApiSession { is_background: true, ..self }
    }

    pub(crate) fn base_url(&self) -> &Url {
        &self.profile.base_url
    }

    /// Builds a URL on the server. Percent-encodes the path segments.
    pub(crate) fn url(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base_url().clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(crate) async fn get(
        &self,
        scope: Scope,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        self.request(scope, Method::GET, &self.url(path, query), None, None).await
    }

    pub(crate) async fn post(
        &self,
        scope: Scope,
        path: &[&str],
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, CommandError> {
        self.request(scope, Method::POST, &self.url(path, &[]), body, idempotency_key).await
    }

    pub(crate) async fn delete(&self, scope: Scope, path: &[&str]) -> Result<(), CommandError> {
        self.request(scope, Method::DELETE, &self.url(path, &[]), None, None).await.map(drop)
    }

    /// Returns an access token for a scope, from the cache or from the server.
    pub(crate) async fn token(&self, scope: Scope) -> Result<AccessToken, CommandError> {
        let credential = self.credential(scope)?;
        if let Some(token) = self.tokens.get(&credential.client_id, scope) {
            return Ok(token);
        }
        let token = self.request_token(credential, scope).await?;
        self.tokens.insert(&credential.client_id, scope, token.clone())?;
        Ok(token)
    }

    pub(crate) async fn request_token(
        &self,
        credential: &ClientCredential,
        scope: Scope,
    ) -> Result<AccessToken, CommandError> {
        let requested_at = now().as_second();
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let login = format!("{}:{}", encoded(&credential.client_id), encoded(credential.client_secret.reveal()));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, secret_header(&format!("Basic {}", BASE64_STANDARD.encode(login)))?),
            (CONTENT_TYPE, form),
        ]);
        let body = format!("grant_type=client_credentials&scope={scope}");
        let response = self.send(Method::POST, &self.url(&["oauth2", "token"], &[]), headers, body).await?;
        match serde_json::from_slice::<TokenBody>(&response.body) {
            Ok(body) if response.status == 200 => Ok(AccessToken {
                access_token: Secret::new(body.access_token),
                expires_at: requested_at + body.expires_in,
            }),
            _ => Err(self.problem(&response)),
        }
    }

    /// Sends a request without a token. Returns the response, whatever its status.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<HttpResponse, CommandError> {
        let response = self.http.request(method, url, headers, body, REQUEST_TIMEOUT).await;
        response.map_err(|error| self.unreachable(error))
    }

    pub(crate) fn unreachable(&self, error: HttpError) -> CommandError {
        let hint = match error {
            HttpError::InvalidUrl | HttpError::Unresolved => "Check the URL: `ringtrue profiles` shows it.",
            HttpError::Refused | HttpError::ConnectTimeout => "Check that the server is running, and its port.",
            HttpError::Tls => "If the server has a private CA, run `ringtrue login` again with --ca-file PATH.",
            HttpError::Timeout | HttpError::Lost => "Try again.",
            HttpError::TooLarge => "Use a smaller --size, or a shorter range.",
            HttpError::Protocol => "Check that Ringtrue is running at this URL.",
        };
        CommandError::Unreachable { message: format!("{} is unreachable: {error}", self.base_url()), hint }
    }

    /// Opens a stream with a token. Fails unless the status is 200.
    pub(crate) async fn open_stream(
        &self,
        scope: Scope,
        url: &Url,
        mut headers: HeaderMap,
    ) -> Result<StreamedResponse, CommandError> {
        let client_id = &self.credential(scope)?.client_id;
        loop {
            let is_cached = self.tokens.get(client_id, scope).is_some();
            let token = self.token(scope).await?;
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.access_token.reveal()))?);
            let response = self.http.open_stream(url, headers.clone(), REQUEST_TIMEOUT).await;
            let response = response.map_err(|error| self.unreachable(error))?;
            match response.status {
                200 => return Ok(response),
                // The cached token was revoked, or the server was replaced.
                401 if is_cached => self.tokens.remove(client_id, scope)?,
                _ => {
                    let response = response.collect(REQUEST_TIMEOUT).await;
                    return Err(self.problem(&response.map_err(|error| self.unreachable(error))?));
                }
            }
        }
    }

    pub(crate) fn problem(&self, response: &HttpResponse) -> CommandError {
        CommandError::Api(ApiProblem::from_response(response, self.base_url()))
    }

    pub(crate) fn workspace_id(&self) -> Result<&str, CommandError> {
        let workspace = self.profile.workspace.as_ref();
        workspace
            .map(|workspace| workspace.workspace_id.as_str())
            .ok_or_else(|| self.missing_credential(Scope::Management))
    }

    async fn request(
        &self,
        scope: Scope,
        method: Method,
        url: &Url,
        body: Option<&Value>,
        idempotency_key: Option<&str>,
    ) -> Result<Value, CommandError> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let response = self.send_json(Some(scope), method, url, body, idempotency_key).await?;
        match response.status {
            200..=299 if response.body.is_empty() => Ok(Value::Null),
            200..=299 => serde_json::from_slice(&response.body).map_err(|_| self.problem(&response)),
            _ => Err(self.problem(&response)),
        }
    }

    /// Sends a request with an optional token and an optional JSON body. Returns the response, whatever its status.
    pub(crate) async fn send_json(
        &self,
        scope: Option<Scope>,
        method: Method,
        url: &Url,
        body: Option<Bytes>,
        idempotency_key: Option<&str>,
    ) -> Result<HttpResponse, CommandError> {
        let mut headers = HeaderMap::new();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = idempotency_key {
            let key = HeaderValue::try_from(key)
                .map_err(|_| CommandError::usage("invalid --idempotency-key", "Use printable ASCII characters."))?;
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        if self.is_background && method == Method::GET {
            headers.insert(BACKGROUND_HEADER, HeaderValue::from_static("true"));
        }
        let body = body.unwrap_or_default();
        let Some(scope) = scope else { return self.send(method, url, headers, body).await };
        let client_id = &self.credential(scope)?.client_id;
        loop {
            let is_cached = self.tokens.get(client_id, scope).is_some();
            let token = self.token(scope).await?;
            headers.insert(AUTHORIZATION, secret_header(&format!("Bearer {}", token.access_token.reveal()))?);
            let response = self.send(method.clone(), url, headers.clone(), body.clone()).await?;
            match response.status {
                // The cached token was revoked, or another server has taken over the URL. The next round requests a new
                // token.
                401 if is_cached => self.tokens.remove(client_id, scope)?,
                429 if self.waits_for_rate_limit
                    && self.problem(&response).retry_after() == Some(RATE_LIMIT_WINDOW) =>
                {
                    sleep(RATE_LIMIT_WINDOW).await;
                }
                _ => return Ok(response),
            }
        }
    }

    fn credential(&self, scope: Scope) -> Result<&ClientCredential, CommandError> {
        self.profile.credential(scope).ok_or_else(|| self.missing_credential(scope))
    }

    fn missing_credential(&self, scope: Scope) -> CommandError {
        let owner = if scope == Scope::Management { "workspace" } else { "project" };
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
        CommandError::NotSignedIn {
            message: format!("this command needs a {owner} credential, but the profile has none"),
            hint: format!(
                "Add it: ringtrue login{name} --base-url {} --client-id ID, with the client id of a {owner}.",
                self.base_url()
            ),
        }
    }
}

/// Paged lists.
impl ApiSession {
    pub(crate) async fn print_list(
        &self,
        scope: Scope,
        path: &[&str],
        columns: &[&'static str],
        arguments: &ListArguments,
    ) -> Result<(), CommandError> {
        let ListArguments { search, page: number, size, all } = arguments;
        if *all {
            let all = self.fetch_all_pages(scope, path, search.as_deref()).await?;
            return Ok(self.printer.print_objects(columns, &all)?);
        }
        let page = self.fetch_page(scope, path, search.as_deref(), *size, number.get()).await?;
        self.printer.print_objects(columns, &page.content)?;
        self.print_page_count(number.get(), &page);
        Ok(())
    }

    /// Prints the number of the page and the total number of items below a table.
    pub(crate) fn print_page_count(&self, number: u32, page: &Page) {
        if self.printer.output == Output::Table {
            printer::print_note(&match page.total {
                0 => "No results found.".to_owned(),
                total => format!("Page {number} of {}; {total} in total.", page.pages),
            });
        }
    }

    pub(crate) async fn fetch_page(
        &self,
        scope: Scope,
        path: &[&str],
        search: Option<&str>,
        size: u32,
        number: u32,
    ) -> Result<Page, CommandError> {
        let search: Vec<_> = search.map(|search| ("search", search.to_owned())).into_iter().collect();
        self.fetch_filtered_page(scope, path, &search, size, number).await
    }

    /// Fetches a page. `filter` has the query parameters of the list other than `size` and `page`.
    pub(crate) async fn fetch_filtered_page(
        &self,
        scope: Scope,
        path: &[&str],
        filter: &[(&'static str, String)],
        size: u32,
        number: u32,
    ) -> Result<Page, CommandError> {
        let mut query = vec![("size", size.to_string()), ("page", number.to_string())];
        query.extend_from_slice(filter);
        let mut response = self.get(scope, path, &query).await?;
        let count = |name: &str| response.pointer(name).and_then(Value::as_u64).unwrap_or(0);
        let (pages, total) = (count("/page/total_pages"), count("/page/total_elements"));
        let content = match response.get_mut("content").map(Value::take) {
            Some(Value::Array(content)) => content,
            _ => vec![],
        };
        Ok(Page { content, pages, total })
    }

    pub(crate) async fn fetch_all_pages(
        &self,
        scope: Scope,
        path: &[&str],
        search: Option<&str>,
    ) -> Result<Vec<Value>, CommandError> {
        let mut all = vec![];
        let mut progress = Progress::start();
        for number in 1.. {
            let next = self.fetch_page(scope, path, search, MAX_PAGE_SIZE, number).await?;
            let is_last = next.content.is_empty() || u64::from(number) >= next.pages;
            all.extend(next.content);
            progress.show_bar(all.len() as u64, next.total, "items");
            if is_last {
                break;
            }
        }
        Ok(all)
    }
}

/// Requests about checks.
impl ApiSession {
    pub(crate) async fn fetch_check(&self, product: Product, id: &str) -> Result<Value, CommandError> {
        self.get(Scope::Product(product), &[checks_path(product), &[id]].concat(), &[]).await
    }

    /// Redeems the code that a device got for a silent check or verification, and returns the concluded check.
    pub(crate) async fn redeem_code(&self, product: Product, check: &str, code: &str) -> Result<Value, CommandError> {
        let path = [checks_path(product), &[check]].concat();
        self.post(Scope::Product(product), &path, Some(&json!({"code": code})), None).await
    }

    /// Gives up the current step of a verification, and returns the verification. With `method`, gives the step up only
    /// if it has this method.
    pub(crate) async fn give_up_step(&self, verification: &str, method: Option<&str>) -> Result<Value, CommandError> {
        let product = Product::Verification;
        let path = [checks_path(product), &[verification, "next"]].concat();
        let body = method.map(|method| json!({"method": method}));
        self.post(Scope::Product(product), &path, body.as_ref(), None).await
    }

    /// Cancels a verification, and returns it.
    pub(crate) async fn cancel(&self, verification: &str) -> Result<Value, CommandError> {
        let product = Product::Verification;
        let path = [checks_path(product), &[verification, "cancel"]].concat();
        self.post(Scope::Product(product), &path, None, None).await
    }

    /// Returns those of the given products for which the credential can get a token. Fails if there are none.
    pub(crate) async fn permitted_products(&self, products: &[Product]) -> Result<Vec<Product>, CommandError> {
        let mut permitted = vec![];
        let mut last = None;
        for product in products {
            match self.token(Scope::Product(*product)).await {
                Ok(_) => permitted.push(*product),
                Err(CommandError::Api(problem)) if problem.error_code == "invalid_scope" => last = Some(problem),
                Err(other) => return Err(other),
            }
        }
        match last {
            Some(problem) if permitted.is_empty() => Err(CommandError::Api(problem)),
            _ => Ok(permitted),
        }
    }
}

/// Returns the API path of a product's checks, as segments.
pub(crate) fn checks_path(product: Product) -> &'static [&'static str] {
    product.facts().api_path
}

/// Returns the columns that tables and CSV show for a product's checks.
pub(crate) fn check_columns(product: Product) -> &'static [&'static str] {
    product.facts().columns
}

/// Returns the id of a check or verification. `object` is a resource, a callback, or the result of a redirect.
pub(crate) fn id_field(object: &Value) -> Option<&str> {
    text_field(object, "check_id").or_else(|| text_field(object, "verification_id"))
}

/// Returns a member of a JSON object, if it is a string.
pub(crate) fn text_field<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

fn secret_header(text: &str) -> Result<HeaderValue, CommandError> {
    let mut value = HeaderValue::try_from(text).map_err(CommandError::other)?;
    value.set_sensitive(true);
    Ok(value)
}
