//! Every error that a request can be answered with, on one page.
//!
//! The same entries make the problem bodies, the pages under `/errors`, and the enum in the OpenAPI document; a test
//! holds them equal.

use http::StatusCode;

/// One kind of error.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub code: &'static str,
    pub status: StatusCode,
    pub title: &'static str,
    /// When it happens, for the page about it.
    pub meaning: &'static str,
    /// What a caller can do.
    pub remedy: &'static str,
}

macro_rules! catalogue {
    ($($name:ident: $status:ident $code:literal $title:literal, $meaning:literal, $remedy:literal;)*) => {
        /// Names an entry of the catalogue.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($name),* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            pub fn entry(self) -> &'static Entry {
                match self {
                    $(Code::$name => &Entry {
                        code: $code, status: StatusCode::$status, title: $title, meaning: $meaning, remedy: $remedy,
                    }),*
                }
            }
        }
    };
}

catalogue! {
    BadRequest: BAD_REQUEST "bad_request" "Bad request",
        "The request is not what this call takes: malformed JSON, an unknown or repeated property, a value of the wrong type or out of its range, a bad header or query parameter.",
        "Read `detail`: it names the culprit, for a body by its JSON pointer. Correct the request; sending it again unchanged gives the same answer.";
    InvalidRequest: BAD_REQUEST "invalid_request" "Invalid request",
        "A token or revoke request lacks a parameter, repeats one, is not a form, or shows its credentials in two places. Also a call with more than one access token.",
        "Send one `Authorization` header, or `client_id` and `client_secret` as form fields, and the other fields that the call takes, each once.";
    InvalidScope: BAD_REQUEST "invalid_scope" "Invalid scope",
        "The scope is unknown, more than one, or not open to this credential: products need a project's credential and a project that is enabled for them, `management` needs a workspace's.",
        "Request exactly one scope that the credential has. A token serves one product; several products need one token each.";
    UnsupportedGrantType: BAD_REQUEST "unsupported_grant_type" "Unsupported grant type",
        "Access tokens are given for the grant type `client_credentials` only.",
        "Send `grant_type=client_credentials`.";
    SearchInvalid: BAD_REQUEST "search_invalid" "Invalid search",
        "The `search` parameter is not valid RSQL, or names a field that cannot be filtered by.",
        "Read `detail`: it names the position and the fields that there are. Encode the parameter; a `+` in a time must be sent as `%2B`.";
    PhoneNumberInvalid: BAD_REQUEST "phone_number_invalid" "Invalid phone number",
        "The phone number is not in E.164 form: a leading `+`, a country code that exists, a length that is possible in that country, and nothing else. Nothing is repaired.",
        "Send the number as `+` and digits, without spaces, dashes or a national zero. Numbers that begin with +990 are for sandbox projects only.";
    MnoNotSupported: BAD_REQUEST "mno_not_supported" "Operator not supported",
        "The operator that serves this number is not known here, or does not take part in this product at the moment.",
        "Offer the user another way to verify the number. Eligibility tells beforehand which products a number can use.";
    PeriodInvalid: BAD_REQUEST "period_invalid" "Invalid period",
        "The period of a SIM Swap check is not a whole number of minutes from 60 to 540000.",
        "Send `period` in minutes, or leave it out: a week is the default.";
    IpInvalid: BAD_REQUEST "ip_invalid" "Invalid IP address",
        "The address is not an IPv4 or IPv6 address in its usual form.",
        "Send four decimal numbers with dots, or an IPv6 address without brackets, zone or prefix length.";
    CodeInvalid: BAD_REQUEST "code_invalid" "Invalid code",
        "The code is not the one that this check's redirect chain ended with. The third wrong one ends the check.",
        "Submit the `code` that the device got at the end of the chain, once, to the check that it belongs to.";
    CallbackUrlInvalid: BAD_REQUEST "callback_url_invalid" "Invalid callback URL",
        "A callback URL is not an absolute https URL that may be called: wrong scheme, credentials or a fragment in it, too long, or an address inside a private network.",
        "Give a public https URL. Sandbox projects may use http. Whoever runs the service can allow further hosts and address ranges.";
    RedirectUrlInvalid: BAD_REQUEST "redirect_url_invalid" "Invalid redirect URL",
        "A redirect URL is not an absolute https URL: wrong scheme, credentials or a fragment in it, or too long.",
        "Give an https URL, such as a universal link of your app. Sandbox projects may use http.";
    Unauthorized: UNAUTHORIZED "unauthorized" "Unauthorized",
        "There is no valid access token: none was sent, or it has expired, was revoked, belongs to another region, or its credential or project is no longer active.",
        "Mint a new token with `POST /oauth2/token` and send it as `Authorization: Bearer <token>`. Tokens in the query string are not accepted.";
    InvalidClient: UNAUTHORIZED "invalid_client" "Invalid client",
        "The client id or the client secret is not right, or no credentials were sent.",
        "Send `client_id` and `client_secret` by HTTP Basic, or as form fields. A lost secret cannot be shown again: make a new credential and delete the old one.";
    Forbidden: FORBIDDEN "forbidden" "Forbidden",
        "The token is good, but not for this: it lacks the scope, its project is not enabled for the product, or the resource belongs to someone else.",
        "`detail` says which of them. Mint a token with the scope of this call, with the credentials of the project or workspace that owns the resource.";
    NotFound: NOT_FOUND "not_found" "Not found",
        "There is nothing at this path.",
        "Compare the path with the reference under `/docs`. All product and management calls begin with `/v1`.";
    CheckNotFound: NOT_FOUND "check_not_found" "Check not found",
        "There is no check with this id.",
        "Use the `check_id` of a create response, at the path of the product that it was created with.";
    SubscriberNotFound: NOT_FOUND "subscriber_not_found" "Subscriber not found",
        "No active subscriber has this number, as far as the sources that were asked know.",
        "Ask the user whether the number is right. Offer another way to reach them.";
    NetworkNotFound: NOT_FOUND "network_not_found" "Network not found",
        "The address belongs to no network that is known here. Private and reserved addresses belong to none.",
        "Take the public address that the device has on mobile data, as your own server sees it.";
    WorkspaceNotFound: NOT_FOUND "workspace_not_found" "Workspace not found",
        "No workspace has this id.",
        "`GET /v1/management/workspaces` shows the workspace of your credential.";
    ProjectNotFound: NOT_FOUND "project_not_found" "Project not found",
        "The workspace has no project with this id.",
        "List the workspace's projects and use a `project_id` from there.";
    CredentialNotFound: NOT_FOUND "credential_not_found" "Credential not found",
        "No live credential has this `client_id` here: it never existed, or was deleted.",
        "List the credentials of the project or workspace.";
    MethodNotAllowed: METHOD_NOT_ALLOWED "method_not_allowed" "Method not allowed",
        "The path exists, but not with this method.",
        "The `Allow` header lists the methods. Projects cannot be deleted: disable them instead.";
    RequestTimeout: REQUEST_TIMEOUT "request_timeout" "Request timeout",
        "The body of the request did not arrive in time.",
        "Send the whole request at once.";
    CheckNotReady: CONFLICT "check_not_ready" "Check not ready",
        "The device has not been through the redirect chain yet, so there is no code to redeem.",
        "Have the device open the check's `url`, and submit the code that it gets at the end.";
    CheckAlreadyCompleted: CONFLICT "check_already_completed" "Check already completed",
        "The check has ended: its code was redeemed, or an error ended it. A device that opens the check's `url` again gets this too.",
        "Read the check to see how it ended. Create a new one to try again.";
    IpMismatch: CONFLICT "ip_mismatch" "Other address than announced",
        "The device came from another address than the `device_ip` of the check. The check has ended.",
        "Take the address from the connection that the device itself makes to your backend over mobile data, or leave `device_ip` out.";
    IpMsisdnMismatch: CONFLICT "ip_msisdn_mismatch" "On another network",
        "The device came from another mobile network than the one that serves the number. The check has ended.",
        "The user may have two SIM cards, and use the other one for data. Offer another way to verify the number.";
    CheckStillOpen: CONFLICT "check_still_open" "Check still open",
        "The check has not ended yet, so there is no callback to send again.",
        "Wait for its end: the callback is sent then by itself.";
    CallbackMissing: CONFLICT "callback_missing" "No callback",
        "The check was created without a `callback_url`, and its project had none at that time. SIM Swap checks have none at all.",
        "Read the check to see how it ended. Give a `callback_url` with the next one, or in the project's configuration.";
    CallbackInProgress: CONFLICT "callback_in_progress" "Callback in progress",
        "The callback is being sent, or waits for its next attempt.",
        "Wait: it is tried again after 10, 20, 30, 40, 50 and 60 seconds. It can be sent again once it was delivered or given up.";
    ProjectNameTaken: CONFLICT "project_name_taken" "Project name taken",
        "Another project of the workspace has this name.",
        "Choose another name, or rename the other project.";
    LimitReached: CONFLICT "limit_reached" "Limit reached",
        "The workspace has as many projects as it may have, or the project or workspace as many live credentials. `detail` says which, and how many they are.",
        "Delete credentials that are no longer used: `last_used_at` shows them. Use a disabled project again instead of creating another, or ask the operator of the service for a higher limit.";
    IdempotencyInProgress: CONFLICT "idempotency_in_progress" "Request still running",
        "The first request with this `Idempotency-Key` has not been answered yet.",
        "Wait a moment and send the same request again: it will get the first one's answer.";
    CheckExpired: GONE "check_expired" "Check expired",
        "The check's time is up. It covers the redirect chain and the redemption of the code.",
        "Create a new check, and redeem its code within the `ttl` that the create response says.";
    CallbackErased: GONE "callback_erased" "Callback erased",
        "What the callback said has been erased, since its time was over or by request.",
        "Read the check: how it ended is kept for longer.";
    PreconditionFailed: PRECONDITION_FAILED "precondition_failed" "Precondition failed",
        "The resource has changed since the caller read it: none of the tags in `If-Match` is its current `ETag`. Nothing was changed.",
        "Read the resource again, apply the change to what it is now, and send the new `ETag` in `If-Match`.";
    NotMobileIp: PRECONDITION_FAILED "not_mobile_ip" "Not a mobile address",
        "The address does not belong to a mobile network: the device is on Wi-Fi, a VPN or a fixed line.",
        "Have the app open the `url` over mobile data. Offer another way to verify the number when that is not possible.";
    PayloadTooLarge: PAYLOAD_TOO_LARGE "payload_too_large" "Payload too large",
        "The body is larger than this call takes: 16 KiB of JSON, 4 KiB for a form.",
        "Send a smaller body.";
    UriTooLong: URI_TOO_LONG "uri_too_long" "URL too long",
        "The URL is longer than 8 KiB.",
        "Shorten the query, for instance the `search` expression.";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" "Unsupported media type",
        "The body is not declared as JSON, or has a `Content-Encoding`.",
        "Send `Content-Type: application/json` and an uncompressed body.";
    WrongRegion: MISDIRECTED_REQUEST "wrong_region" "Wrong region",
        "The host name belongs to another region than this deployment.",
        "Call the host of the region that your workspace's data lives in.";
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY "idempotency_key_reused" "Idempotency key reused",
        "This `Idempotency-Key` was used in the last 24 hours for a request with another path or body.",
        "Use a new key for a new request, and an old one only to repeat exactly the same request.";
    TooManyRequests: TOO_MANY_REQUESTS "too_many_requests" "Too many requests",
        "The workspace's limit of requests per second is reached; or the project has asked about one phone number too often; or, at the token endpoint, the client's limit, or too many failed logins from one address.",
        "Wait for the seconds that `Retry-After` says. The `X-RateLimit-*` headers of every answer show how much is left.";
    RequestHeaderFieldsTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE "request_header_fields_too_large" "Header fields too large",
        "The headers of the request are larger than 8 KiB together.",
        "Send fewer or shorter headers.";
    InternalError: INTERNAL_SERVER_ERROR "internal_error" "Internal error",
        "Something went wrong on our side. What was asked for has not been done.",
        "Try again; when it happens again, give the `X-Request-Id` of the answer to whoever runs this service.";
    NotImplemented: NOT_IMPLEMENTED "not_implemented" "Not implemented",
        "The body of the request is sent with a transfer coding other than a single `chunked`. The connection is closed.",
        "Send the body with a `Content-Length`, or with `Transfer-Encoding: chunked` and no other coding.";
    MnoRedirectUnsupported: NOT_IMPLEMENTED "mno_redirect_unsupported" "Operator takes no devices",
        "The device's operator is known, but none of our connections to it can tell whose a device is.",
        "Offer another way to verify the number.";
    LookupUnavailable: SERVICE_UNAVAILABLE "lookup_unavailable" "Lookup unavailable",
        "Which operator serves the number cannot be found out at the moment: no source of that knowledge answers. Nothing was stored.",
        "Try again after the seconds that `Retry-After` says.";
    ServiceUnavailable: SERVICE_UNAVAILABLE "service_unavailable" "Service unavailable",
        "The service cannot do this at the moment, usually because its database cannot be reached.",
        "Try again after the seconds that `Retry-After` says. With an `Idempotency-Key` a create can be repeated without harm.";
}
