//! The command line, as its users meet it: the real binary, in a folder of its own.

mod commands;
mod dev;
mod doctor;
mod process;
mod serve;
mod setup;
