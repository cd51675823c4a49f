//! The console, as a browser meets it.

mod accounts;
pub mod browser;
mod checks;
mod deployment;
mod handset;
mod live;
mod networks_allowed;
mod overview;
mod pages;
mod projects;
mod requests;
mod roles;
mod sign_in;
mod signatures;
