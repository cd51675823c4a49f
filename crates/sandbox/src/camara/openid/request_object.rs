//! Signed authorization requests: parameters that nobody on the way can change.

use super::{ErrorCode, Refusal, assertion};
use crate::camara::{Client, Core, Endpoint, http::Parameters, jose::Jws};

/// These stand beside the object too, with the same values.
const REPEATED: [&str; 4] = ["scope", "response_type", "client_id", "redirect_uri"];

/// The parameters of the object. No others count.
pub(super) fn open(core: &Core, client: &Client, object: &str, beside: &Parameters) -> Result<Parameters, Refusal> {
    let flawed = |why| Refusal::new(ErrorCode::InvalidRequestObject, why);
    let token = Jws::parse(object).ok_or(flawed("the request object is not a signed token"))?;
    let audiences = [core.url(Endpoint::Authorize), core.issuer.clone()];
    let claims = assertion::verify(core, client, token, &audiences).map_err(flawed)?;
    if !claims.contains_key("iat") {
        return Err(flawed("iat is missing"));
    }
    // With a subject it could pass for a client's proof of itself.
    if ["sub", "request", "request_uri"].iter().any(|name| claims.contains_key(*name)) {
        return Err(flawed("sub, request and request_uri have no place in a request object"));
    }
    assertion::use_up(core, client, &claims).map_err(flawed)?;
    let within = Parameters::from(claims);
    let are_equal = REPEATED.iter().all(|name| within.get(name).is_some() && within.get(name) == beside.get(name));
    if are_equal { Ok(within) } else { Err(flawed("the parameters beside the request object are not the same")) }
}
