//! Minimal HTTP server with fully read requests.

mod connection;
mod request;
mod response;

pub(super) use self::{
    connection::listen,
    request::{OAuthParameters, Request},
    response::{HttpResponse, json_response, json_response_with_status, redirect_response, text_response},
};
