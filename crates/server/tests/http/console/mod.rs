//! Tests of the console over HTTP.

mod accounts;
mod allowed_networks;
pub mod browser;
mod callbacks;
mod checks;
mod deployment;
mod getting_started;
mod handset;
mod limits;
pub mod live;
mod openid_connect;
mod overview;
mod pages;
mod projects;
mod requests;
mod roles;
mod sandbox_tokens;
mod search;
pub mod second_factor;
mod sign_in;
mod signatures;
