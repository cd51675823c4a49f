//! Tests of the console over HTTP.

mod accounts;
mod allowed_networks;
pub mod browser;
mod checks;
mod deployment;
mod getting_started;
mod handset;
pub mod live;
mod openid_connect;
mod overview;
mod pages;
mod projects;
mod requests;
mod roles;
mod second_factor;
mod sign_in;
mod signatures;
