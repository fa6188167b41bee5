//! Acting on jobs that exist, and the small named records that others keep here.

use std::sync::Arc;

use bytes::Bytes;

use super::{Canceling, Refused, Service, Viewer};
use crate::core::{ActRefusal, CellsRefusal};
use crate::job::{Command, JobId};
use crate::store::CellChange;

/// The reason of a cancel that gives none (contract 2).
const BY_USER: &str = "user";

impl Service {
    /// Ends a pending job at once; tells a running one to stop and returns when that wish is durable. A job that has
    /// ended is answered as it is.
    ///
    /// # Errors
    /// `NoSuchJob`, `Busy`, `Draining`, `Unhealthy`; `DiskFull` while not even that can be written.
    pub async fn cancel(&self, viewer: &Viewer, id: JobId, reason: Option<String>) -> Result<Canceling, Refused> {
        let head = self.job(viewer, id).await?;
        if head.job.status().is_terminal() {
            return Ok(Canceling { head, under_way: false });
        }
        let reason: Arc<str> = reason.filter(|text| !text.trim().is_empty()).map_or(BY_USER.into(), Arc::from);
        let command = Command::Cancel { by: viewer.principal.clone(), reason };
        let head = match self.core.act(id, command).await? {
            Ok(head) => head,
            // It ended between the look and the wish.
            Err(ActRefusal::NotLive | ActRefusal::Refused(_)) => self.job(viewer, id).await?,
            Err(ActRefusal::DiskFull) => return Err(Refused::DiskFull),
        };
        let under_way = !head.job.status().is_terminal();
        Ok(Canceling { head, under_way })
    }

    /// Reads the small named records whose names start with `prefix`, by name.
    ///
    /// # Errors
    /// `Busy`, `Unhealthy`.
    pub async fn cells(&self, prefix: &'static str) -> Result<Vec<(String, Bytes)>, Refused> {
        self.ask(move |store| store.cells(prefix)).await?.map_err(|error| self.failed(&error))
    }

    /// Writes or removes small named records, all or none. Durable when it returns.
    ///
    /// # Errors
    /// `Conflict` if one did not hold what was expected; `DiskFull`, `Busy`, `Draining`.
    pub async fn put_cells(&self, cells: Vec<CellChange>) -> Result<(), Refused> {
        self.core.cells(cells).await?.map_err(|refusal| match refusal {
            CellsRefusal::Conflict => Refused::Conflict,
            CellsRefusal::DiskFull => Refused::DiskFull,
        })
    }
}
