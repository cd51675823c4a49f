//! Requests and answers, each in one piece, and the connections that carry them.

mod answer;
mod connection;
mod request;

pub(super) use self::{
    answer::{Answer, json, json_with_status, page, redirect},
    connection::listen,
    request::{Parameters, Request},
};
