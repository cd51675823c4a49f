//! Catalog of all API errors.
//!
//! Problem bodies and the pages under `/errors` are rendered from its entries. A test ensures that the enum in the
//! OpenAPI document lists the same codes.

use http::StatusCode;

#[derive(Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    pub code: &'static str,
    pub status: StatusCode,
    pub title: &'static str,
    /// Explains the causes. Shown on the error page.
    pub meaning: &'static str,
    /// Tells API clients what to do. Shown on the error page.
    pub remedy: &'static str,
}

macro_rules! error_catalog {
    ($($name:ident: $status:ident $code:literal $title:literal, $meaning:literal, $remedy:literal;)*) => {
        /// Identifies an entry of the error catalog.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ProblemCode { $($name),* }

        impl ProblemCode {
            pub const ALL: &[ProblemCode] = &[$(ProblemCode::$name),*];

            pub fn entry(self) -> &'static CatalogEntry {
                match self {
                    $(ProblemCode::$name => &CatalogEntry {
                        code: $code, status: StatusCode::$status, title: $title, meaning: $meaning, remedy: $remedy,
                    }),*
                }
            }
        }
    };
}

error_catalog! {
    BadRequest: BAD_REQUEST "bad_request" "Bad request",
        "The request is malformed: invalid JSON, an unknown or repeated property, a value of the wrong type or out of range, or an invalid header or query parameter.",
        "`detail` names the invalid part; for a JSON body it contains a JSON pointer. Correct the request before you send it again.";
    InvalidRequest: BAD_REQUEST "invalid_request" "Invalid request",
        "A token or revoke request lacks a parameter, repeats one, is not form-encoded, or contains credentials in both the header and the body. API calls with more than one access token also get this error.",
        "Send either one `Authorization` header or the form fields `client_id` and `client_secret`, and each other parameter once.";
    InvalidScope: BAD_REQUEST "invalid_scope" "Invalid scope",
        "The scope is unknown, names more than one value, or is not available to this credential. Product scopes need a credential from a project that is enabled for the product; `management` needs a workspace credential.",
        "Request exactly one scope that the credential has. Request a separate token for each product.";
    UnsupportedGrantType: BAD_REQUEST "unsupported_grant_type" "Unsupported grant type",
        "The token endpoint supports the grant types `client_credentials` and `authorization_code`. Where CAMARA's APIs are on, it also supports JWT bearer and CIBA.",
        "Send `grant_type=client_credentials`, or `grant_type=authorization_code` to sign a user in.";
    InvalidGrant: BAD_REQUEST "invalid_grant" "Invalid grant",
        "The authorization code or `auth_req_id` is unknown, expired, already used, or for another client; `redirect_uri` or `code_verifier` is not that of the authorization request; or the assertion is invalid or was used before.",
        "Start again. Redeem a code once, within 60 seconds, with the `redirect_uri` of the authorization request.";
    UnauthorizedClient: BAD_REQUEST "unauthorized_client" "Unauthorised client",
        "The client may not sign users in: its project or its credential does not have the product `sign_in`. Or it may not use CAMARA's APIs: its project declares no purposes.",
        "Enable the product `sign_in` for the project, and use a credential with this scope. For CAMARA's APIs, set `configuration.camara.purposes`.";
    InvalidRequestObject: BAD_REQUEST "invalid_request_object" "Invalid request object",
        "The signed authorization request is not valid: its signature, audience or times are wrong, or the client has no registered keys.",
        "Sign the request with a key in `configuration.sign_in.jwks` or at `jwks_uri`. `aud` is the issuer, and `exp` at most an hour ahead, or five minutes for CAMARA's APIs.";
    UnsupportedResponseType: BAD_REQUEST "unsupported_response_type" "Unsupported response type",
        "The authorization endpoint supports the response type `code` only.",
        "Send `response_type=code`.";
    UnknownUserId: BAD_REQUEST "unknown_user_id" "Unknown user",
        "The `login_hint` of a backchannel authentication request is not a phone number in the form `tel:+…`.",
        "Send `login_hint=tel:` and the number in E.164 form.";
    ExpiredToken: BAD_REQUEST "expired_token" "Expired request",
        "The backchannel authentication request has expired before its token was requested.",
        "Send a new request to `/oauth2/bc-authorize`, and ask for its token within `expires_in` seconds.";
    SearchInvalid: BAD_REQUEST "search_invalid" "Invalid search",
        "The `search` parameter is not valid RSQL, or names a field that does not support filtering.",
        "`detail` contains the position of the error and the supported fields. Percent-encode the parameter; a `+` in a timestamp must be sent as `%2B`.";
    PhoneNumberInvalid: BAD_REQUEST "phone_number_invalid" "Invalid phone number",
        "The phone number is not in E.164 format: a leading `+`, an assigned country code and a valid length for that country. Other notations are not converted.",
        "Send the number as `+` followed by digits, without spaces, dashes or a national trunk prefix. Numbers that begin with +990 are valid in sandbox projects only.";
    MnoNotSupported: BAD_REQUEST "mno_not_supported" "Operator not supported",
        "We do not know which operator serves this number, or the operator does not currently support this product. For a verification, it supports none of the methods.",
        "Offer the user another verification method. Use Eligibility to find out in advance which products a number supports.";
    PeriodInvalid: BAD_REQUEST "period_invalid" "Invalid period",
        "A SIM Swap check's `period`, or a verification's `sim_swap_period`, is not an integer from 60 to 540000.",
        "Send the period in minutes. A SIM Swap check without `period` covers one week.";
    IpInvalid: BAD_REQUEST "ip_invalid" "Invalid IP address",
        "The value is not a valid IPv4 or IPv6 address.",
        "Send an IPv4 address in dotted decimal notation, or an IPv6 address without brackets, zone or prefix length.";
    CodeInvalid: BAD_REQUEST "code_invalid" "Invalid code",
        "The code does not match the one issued at the end of this check's redirect chain. A check fails after three wrong codes.",
        "Submit the `code` that the device received at the end of the redirect chain to the check that it belongs to.";
    DigitalCredentialInvalid: BAD_REQUEST "digital_credential_invalid" "Invalid digital credential",
        "The wallet's answer does not fit the request: it is malformed, for another check or origin, has expired, was used before, or has an invalid signature. The check stays open.",
        "`detail` names the test that failed. Pass the request in `digital_credential` to the wallet unchanged, submit its answer once, and name your app in `secure_sna.app_origins`. For another attempt, read the verification again: each response has a new request.";
    CallbackUrlInvalid: BAD_REQUEST "callback_url_invalid" "Invalid callback URL",
        "The callback URL is not an absolute https URL with a public address: the scheme is wrong, it contains credentials or a fragment, it is too long, or it points into a private network.",
        "Use a public https URL. Sandbox projects may use http. This deployment's administrator can allow additional hosts and address ranges.";
    RedirectUrlInvalid: BAD_REQUEST "redirect_url_invalid" "Invalid redirect URL",
        "The redirect URL is not an absolute https URL: the scheme is wrong, it contains credentials or a fragment, or it is too long; or the project's `redirect_origins` do not contain its origin. Also if an entry of `redirect_origins` or `frame_origins` is not an origin.",
        "Use an https URL, such as your app's universal link, with an origin that the project allows. Sandbox projects may use http.";
    Unauthorized: UNAUTHORIZED "unauthorized" "Unauthorized",
        "The access token is missing, expired, revoked or issued by another region, or its credential or project is no longer active.",
        "Request a new token with `POST /oauth2/token` and send it as `Authorization: Bearer <token>`. Tokens in the query string are not accepted.";
    InvalidClient: UNAUTHORIZED "invalid_client" "Invalid client",
        "The client id or client secret is wrong, or the request contains no credentials.",
        "Send `client_id` and `client_secret` by HTTP Basic or as form fields. A lost secret cannot be recovered: create a new credential and delete the old one.";
    Forbidden: FORBIDDEN "forbidden" "Forbidden",
        "The token is valid but does not permit this request: it lacks the scope, its project is not enabled for the product, or the resource belongs to another project or workspace.",
        "`detail` contains the reason. Request a token for this call's scope, with a credential from the project or workspace that owns the resource.";
    NotFound: NOT_FOUND "not_found" "Not found",
        "No resource exists at this path.",
        "Compare the path with the reference at `/docs`. The paths of all product and management calls begin with `/v1`.";
    CheckNotFound: NOT_FOUND "check_not_found" "Check not found",
        "No check or verification has this id.",
        "Use the `check_id` or `verification_id` from the create response, at the path for the same product.";
    SubscriberNotFound: NOT_FOUND "subscriber_not_found" "Subscriber not found",
        "According to this deployment's number sources, no active subscriber has this number.",
        "Ask the user to check the number, or use another way to reach them.";
    NetworkNotFound: NOT_FOUND "network_not_found" "Network not found",
        "The IP address does not belong to a known network. Private and reserved addresses do not belong to any network.",
        "Send the public address that your server sees when the device connects over mobile data.";
    WorkspaceNotFound: NOT_FOUND "workspace_not_found" "Workspace not found",
        "No workspace has this id.",
        "Call `GET /v1/management/workspaces` to find your credential's workspace.";
    ProjectNotFound: NOT_FOUND "project_not_found" "Project not found",
        "The workspace has no project with this id.",
        "List the workspace's projects, and use a `project_id` from the response.";
    CredentialNotFound: NOT_FOUND "credential_not_found" "Credential not found",
        "The project or workspace has no active credential with this `client_id`. It may have been deleted.",
        "List the project's or workspace's credentials.";
    MethodNotAllowed: METHOD_NOT_ALLOWED "method_not_allowed" "Method not allowed",
        "The path does not support this method.",
        "Use one of the methods in the `Allow` header. Projects cannot be deleted; disable them instead.";
    RequestTimeout: REQUEST_TIMEOUT "request_timeout" "Request timeout",
        "The request body was not received in time.",
        "Send the complete request without delay.";
    CheckNotReady: CONFLICT "check_not_ready" "Check not ready",
        "The device has not completed the redirect chain, so there is no code to redeem. A verification may have moved on to a step without a code. An answer of a phone's wallet gets this error if the device has returned from its operator meanwhile.",
        "Open the check's `url` on the device, and submit the code from the end of the redirect chain.";
    CheckAlreadyCompleted: CONFLICT "check_already_completed" "Check already completed",
        "The check or verification has ended: its code was redeemed, or it failed. You also get this error if you open the check's `url` again.",
        "Read the check or verification to get its result. Create a new one to try again.";
    IpMismatch: CONFLICT "ip_mismatch" "IP address mismatch",
        "The device connected from a different address than the check's `device_ip`. The check has failed.",
        "Take the address from a connection that the device itself makes to your backend over mobile data, or omit `device_ip`.";
    IpMsisdnMismatch: CONFLICT "ip_msisdn_mismatch" "Network mismatch",
        "The device is connected to a different mobile network than the one that serves the number. The check has failed.",
        "The user may have two SIM cards and use the other one for data. Offer another verification method.";
    CheckStillOpen: CONFLICT "check_still_open" "Check still open",
        "The check or verification has not ended, so there is no callback to resend.",
        "Wait until it ends. We then send the callback automatically.";
    CallbackMissing: CONFLICT "callback_missing" "No callback",
        "The check was created without a `callback_url` and its project had none at that time. SIM Swap checks never have callbacks.",
        "Read the check to get its result. Set a `callback_url` in the create request or in the project configuration for future checks.";
    CallbackInProgress: CONFLICT "callback_in_progress" "Callback in progress",
        "The callback is being sent or is scheduled for a retry.",
        "Wait: retries follow after 10, 20, 30, 40, 50 and 60 seconds. You can resend the callback after it was delivered or all retries failed.";
    ProjectNameTaken: CONFLICT "project_name_taken" "Project name taken",
        "Another project in the workspace has this name.",
        "Choose another name, or rename the other project.";
    ProjectNotReady: CONFLICT "project_not_ready" "Project not ready to go live",
        "The project or this deployment lacks something that live checks need. `detail` lists what is missing.",
        "Allow networks for each product, ask this deployment's administrator for connectors and receivers, use `https` URLs, and complete a sandbox check with a callback. To go live anyway, send the request with `?force=true`.";
    LimitReached: CONFLICT "limit_reached" "Limit reached",
        "You have reached a limit: a workspace's projects, a project's or workspace's active credentials, a workspace's members and pending invitations, or a callback's resends. `detail` names the limit.",
        "For projects, reuse a disabled one. For credentials, delete unused ones; `last_used_at` helps to find them. For members, remove a member or withdraw an invitation in the console. This deployment's administrator can raise these limits.\n\nYou can resend a callback 20 times. After that, read the check to get its result.";
    LastCredential: CONFLICT "last_credential" "Last credential",
        "This is the workspace's last live credential. Expired and replaced credentials do not count.",
        "Create another credential first, then delete this one. To replace a credential, rotate it in the console.";
    IdempotencyInProgress: CONFLICT "idempotency_in_progress" "Request still running",
        "The first request with this `Idempotency-Key` is still being processed.",
        "Wait, then send the same request again to get the first one's response.";
    CheckExpired: GONE "check_expired" "Check expired",
        "The check or verification has expired. Its time to live covers the redirect chain and redeeming the code.",
        "Create a new one, and redeem its code within the create response's `ttl`.";
    CallbackErased: GONE "callback_erased" "Callback erased",
        "The callback's content was erased after its retention period, or on request.",
        "Read the check: we keep its result longer.";
    PreconditionFailed: PRECONDITION_FAILED "precondition_failed" "Precondition failed",
        "The resource has changed since you read it: no tag in `If-Match` equals its current `ETag`. The request changed nothing.",
        "Read the resource again, apply your change to the current state, and send the new `ETag` in `If-Match`.";
    NotMobileIp: PRECONDITION_FAILED "not_mobile_ip" "Not a mobile address",
        "The IP address does not belong to a mobile network: the device uses Wi-Fi, a VPN or a fixed line.",
        "Make the app open the `url` over mobile data, or offer another verification method.";
    PayloadTooLarge: PAYLOAD_TOO_LARGE "payload_too_large" "Payload too large",
        "The request body exceeds this call's limit: 16 KiB for JSON, 4 KiB for forms.",
        "Send a smaller body.";
    UriTooLong: URI_TOO_LONG "uri_too_long" "URL too long",
        "The URL is longer than 8 KiB.",
        "Shorten the query, for example the `search` expression.";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" "Unsupported media type",
        "The request does not declare a JSON body, or has a `Content-Encoding`.",
        "Send `Content-Type: application/json` and an uncompressed body.";
    WrongRegion: MISDIRECTED_REQUEST "wrong_region" "Wrong region",
        "The host name belongs to another region.",
        "Use the host for your workspace's region.";
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY "idempotency_key_reused" "Idempotency key reused",
        "This `Idempotency-Key` was used within the last 24 hours for a request with a different path or body.",
        "Use a new key for each new request. Reuse a key only to repeat the identical request.";
    TooManyRequests: TOO_MANY_REQUESTS "too_many_requests" "Too many requests",
        "The workspace exceeded its requests per second, the project created too many checks for one phone number, or, at the token endpoint, the client exceeded its limit or one address had too many failed logins.",
        "Wait for the number of seconds in `Retry-After`. Every response's `X-RateLimit-*` headers contain the remaining quota.";
    RequestHeaderFieldsTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE "request_header_fields_too_large" "Header fields too large",
        "The request headers exceed 8 KiB in total or 100 fields.",
        "Send fewer or shorter headers.";
    InternalError: INTERNAL_SERVER_ERROR "internal_error" "Internal error",
        "The service failed to process the request because of an internal error. The request had no effect.",
        "Try again. If the error persists, report the response's `X-Request-Id` to this deployment's administrator.";
    NotImplemented: NOT_IMPLEMENTED "not_implemented" "Not implemented",
        "The request body uses a transfer coding other than a single `chunked`. The server closes the connection.",
        "Send the body with a `Content-Length`, or with `Transfer-Encoding: chunked` and no other coding.";
    MnoRedirectUnsupported: NOT_IMPLEMENTED "mno_redirect_unsupported" "Operator redirect not supported",
        "No connector to the device's operator supports identifying devices.",
        "Offer another verification method.";
    LookupUnavailable: SERVICE_UNAVAILABLE "lookup_unavailable" "Lookup unavailable",
        "No number source responded, so we could not find out which operator serves the number. Nothing was stored.",
        "Try again after the number of seconds in `Retry-After`.";
    ServiceUnavailable: SERVICE_UNAVAILABLE "service_unavailable" "Service unavailable",
        "The service is temporarily unavailable, usually because it cannot reach its database.",
        "Try again after the number of seconds in `Retry-After`. You can safely repeat a create that has an `Idempotency-Key`.";
}
