//! Stores the SIM swaps of simulated numbers in sandbox projects.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{NumberHash, Sealed},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    sandbox::{SandboxStore, SimulatedSimSwap},
    store::StoreError,
};

use super::SqlStore;
use crate::{
    driver::{Database, TransactionEnd, work},
    row::{Row, values},
};

fn swap_from_row(row: Row) -> Result<SimulatedSimSwap, StoreError> {
    let mut row = row.reader("simulated_sim_swaps");
    Ok(SimulatedSimSwap {
        number_hash: NumberHash(row.digest("number_hash")?),
        number: Sealed(row.bytes("number")?),
        swapped_at: row.instant("swapped_at")?,
    })
}

#[async_trait]
impl<D: Database> SandboxStore for SqlStore<D> {
    async fn record_simulated_sim_swap(
        &self,
        project: ProjectId,
        swap: &SimulatedSimSwap,
        limit: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let swap = swap.clone();
        self.transact(work!(|tx| {
            let insert = "insert into simulated_sim_swaps (project_id, number_hash, number, swapped_at, created_at)
                          values ($1, $2, $3, $4, $5)
                          on conflict (project_id, number_hash) do update
                            set number = excluded.number, swapped_at = excluded.swapped_at,
                                created_at = excluded.created_at";
            tx.run(insert, values![project, swap.number_hash, &swap.number, swap.swapped_at, now]).await?;
            let select = "select number_hash from simulated_sim_swaps where project_id = $1
                           order by created_at desc, number_hash limit 1000 offset $2";
            for oldest in tx.run(select, values![project, i64::from(limit)]).await? {
                let number = oldest.reader("simulated_sim_swaps").digest("number_hash")?;
                tx.run(DELETE, values![project, number]).await?;
            }
            Ok(TransactionEnd::Commit(()))
        }))
        .await
    }

    async fn delete_simulated_sim_swap(&self, project: ProjectId, number: NumberHash) -> Result<(), StoreError> {
        self.execute(DELETE, values![project, number]).await.map(drop)
    }

    async fn list_simulated_sim_swaps(&self, project: ProjectId) -> Result<Vec<SimulatedSimSwap>, StoreError> {
        let select = "select number_hash, number, swapped_at from simulated_sim_swaps where project_id = $1
                       order by created_at, number_hash";
        self.query(select, values![project]).await?.into_iter().map(swap_from_row).collect()
    }
}

const DELETE: &str = "delete from simulated_sim_swaps where project_id = $1 and number_hash = $2";
