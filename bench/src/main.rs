//! Comparisons that `make bench` prints: ours against others, in one run on one machine.
//!
//! Each comparison is a ratio with the least that is asked of it. Rounds of the contestants alternate, so that a slow
//! moment of the machine hits all of them. The exit code is 1 when a ratio is not reached.

mod bare;
mod group_commit;
mod load;
mod process;
mod report;
mod tokens;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compares Ringtrue with others on this machine")]
struct Arguments {
    /// Only this comparison.
    #[command(subcommand)]
    only: Option<Comparison>,
}

#[derive(Subcommand)]
enum Comparison {
    /// Token requests against npm `oidc-provider` and against a bare handler.
    Tokens,
    /// Durable writes by group commit against `pgbench`.
    GroupCommit,
    /// Serves a constant body: the contestant that does nothing else.
    #[command(hide = true)]
    Bare { size: usize },
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let reached = match Arguments::parse().only {
        Some(Comparison::Bare { size }) => return runtime.block_on(bare::serve(size)),
        Some(Comparison::Tokens) => runtime.block_on(tokens::compare())?,
        Some(Comparison::GroupCommit) => runtime.block_on(group_commit::compare())?,
        None => {
            let tokens = runtime.block_on(tokens::compare())?;
            let group_commit = runtime.block_on(group_commit::compare())?;
            tokens && group_commit
        }
    };
    std::process::exit(i32::from(!reached));
}
