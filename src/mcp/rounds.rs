//! Questions of a job as rounds of a `tools/call` (2026-07-28): the answer is what the job asks, and the call is sent again with the user's answers.
//!
//! In: a call, and on its retry the `requestState` of the round before. Out: the round, and the job that it goes on with: never a second one. Nothing is
//! kept in between: the state names the job, is signed, and is good for its principal, its tool and its arguments alone.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::questions::{self, Answers};
use super::reply::Members;
use super::rpc::{self, Error, INVALID_PARAMS};
use super::tools::Call;
use super::{Endpoint, refusal};
use crate::clock::Clock;
use crate::job::{Head, JobId, Millis, Timestamp, canonical};
use crate::service::{CellChange, OpenQuestion, Refused, Service, Tool};

/// How long the state of a round is good. After it the job still waits, and is answered as any other.
pub const STATE_LIVES: Millis = Millis::seconds(24 * 3_600);
/// Longest state that is looked at, in characters.
pub const STATE_MAX: usize = 256;

/// The cell that keeps the key.
const CELL: &str = "mcp-state-key";
/// Job, end, nonce.
const SIGNED: usize = 16 + 8 + 8;
const MAC: usize = 32;

/// What signs states.
pub(super) struct Seal {
    key: [u8; 32],
}

/// A call that can be answered by questions.
pub(super) struct Round {
    /// What a state is good for.
    bound: Vec<u8>,
    /// What came with the call.
    answers: Answers,
}

impl Seal {
    /// Signs with the key that the store keeps; at the very first start it is made.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) async fn load(service: &Service, clock: &dyn Clock) -> Result<Self, Refused> {
        for (name, value) in service.cells(CELL).await? {
            if name == CELL
                && let Ok(key) = value.as_ref().try_into()
            {
                return Ok(Self { key });
            }
        }
        // Each job id has 74 random bits.
        let mut seed = Sha256::new();
        (0..8).for_each(|_| seed.update(clock.job_id().as_u128().to_be_bytes()));
        let key: [u8; 32] = seed.finalize().into();
        let value = Some(Bytes::copy_from_slice(&key));
        match service.put_cells(vec![CellChange { name: CELL.into(), expect: None, value }]).await {
            Ok(()) => {}
            Err(Refused::DiskFull) => tracing::warn!("the disk is full: rounds of questions end with this process"),
            Err(refused) => return Err(refused),
        }
        Ok(Self { key })
    }

    /// A state of its own for each time that somebody is asked.
    fn sign(&self, job: JobId, bound: &[u8], nonce: JobId, now: Timestamp) -> String {
        let mut bytes = job.as_u128().to_be_bytes().to_vec();
        bytes.extend(now.plus(STATE_LIVES).0.to_be_bytes());
        bytes.extend(&nonce.as_u128().to_be_bytes()[8..]);
        let mac = self.mac(&bytes, bound).finalize().into_bytes();
        bytes.extend(mac);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The job of a state that was signed for this and has not ended. The comparison takes constant time.
    fn job(&self, state: &str, bound: &[u8], now: Timestamp) -> Option<JobId> {
        let bytes = (state.len() <= STATE_MAX).then(|| URL_SAFE_NO_PAD.decode(state).ok()).flatten()?;
        let (signed, mac) = bytes.split_at_checked(SIGNED).filter(|(_, mac)| mac.len() == MAC)?;
        self.mac(signed, bound).verify_slice(mac).ok()?;
        let (job, rest) = signed.split_at_checked(16)?;
        let ends_at = Timestamp(i64::from_be_bytes(rest.get(..8)?.try_into().ok()?));
        let job = JobId::from_u128(u128::from_be_bytes(job.try_into().ok()?));
        (now < ends_at).then_some(job)
    }

    fn mac(&self, bytes: &[u8], bound: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        mac.update(b"longhaul round 1");
        mac.update(bytes);
        mac.update(bound);
        mac
    }
}

impl Round {
    /// The round that this call is.
    ///
    /// # Errors
    /// -32602 if its answers are no object.
    pub(super) fn of(call: &Call<'_>, tool: &Tool, arguments: &str) -> Result<Self, Error> {
        let answers = questions::answers(call.params.input_responses)?.unwrap_or_default();
        // Arguments that are no JSON to be had are refused when they are submitted.
        let value: Value = serde_json::from_str(arguments).unwrap_or_default();
        let mut bound = canonical::digest(&value).to_vec();
        // No principal and no name of a tool holds a line end.
        bound.extend_from_slice(format!("{}\n{}", tool.name, call.viewer.principal).as_bytes());
        Ok(Self { bound, answers })
    }

    /// The job that a retry goes on with, once it has the answers that came along.
    ///
    /// # Errors
    /// -32602 for a state that is none of ours, has ended or was given for something else; -32603 for what the service cannot do now.
    pub(super) async fn resumed(&self, endpoint: &Endpoint, call: &Call<'_>) -> Result<Option<Arc<Head>>, Error> {
        let Some(raw) = call.params.request_state.filter(|raw| raw.get() != "null") else { return Ok(None) };
        let text =
            "params.requestState is not what was answered to this call, or has ended: leave it out to start anew";
        let invalid = || Error::answered(INVALID_PARAMS, text);
        let state = rpc::text(raw).ok_or_else(invalid)?;
        let job = endpoint.seal.job(&state, &self.bound, endpoint.clock.now()).ok_or_else(invalid)?;
        let head = match endpoint.service.job(call.viewer, job).await {
            Err(Refused::NoSuchJob) => return Err(invalid()),
            other => other.map_err(|refused| refusal::internal(&refused))?,
        };
        self.answered(endpoint, call, head).await.map(Some).map_err(|refused| refusal::internal(&refused))
    }

    async fn answered(&self, endpoint: &Endpoint, call: &Call<'_>, head: Arc<Head>) -> Result<Arc<Head>, Refused> {
        // What does not fit is asked again.
        questions::apply(endpoint, call.viewer, head, &self.answers).await.map(|(head, _)| head)
    }

    /// What came with the call.
    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The answer that asks these questions.
    pub(super) fn result(&self, endpoint: &Endpoint, head: &Head, open: &[OpenQuestion]) -> Members {
        let (id, nonce) = (head.job.id(), endpoint.clock.job_id());
        let mut json = b"\"resultType\":\"input_required\",\"inputRequests\":".to_vec();
        rpc::push_value(&mut json, &questions::requests(open));
        json.extend_from_slice(b",\"requestState\":");
        rpc::push_string(&mut json, &endpoint.seal.sign(id, &self.bound, nonce, endpoint.clock.now()));
        Members { json, ..Members::default() }.about(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_good_for_what_it_was_given_for_until_it_ends() {
        let (seal, job, now) = (Seal { key: [7; 32] }, JobId::from_u128(7), Timestamp(1_000));
        let state = seal.sign(job, b"bound", JobId::from_u128(1), now);
        assert!(state.len() <= STATE_MAX);
        assert_ne!(state, seal.sign(job, b"bound", JobId::from_u128(2), now), "each round has its own");
        assert_eq!(seal.job(&state, b"bound", now), Some(job));
        assert_eq!(seal.job(&state, b"other", now), None);
        assert_eq!(seal.job(&state, b"bound", now.plus(STATE_LIVES)), None);
        assert_eq!(Seal { key: [8; 32] }.job(&state, b"bound", now), None);
        for bad in ["", "x", &format!("{state}-TAMPERED"), &state[1..], &"A".repeat(10_000)] {
            assert_eq!(seal.job(bad, b"bound", now), None, "{bad}");
        }
        for at in 0..state.len() {
            let mut other = state.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("is ASCII");
            assert_eq!(seal.job(&other, b"bound", now), None, "{at}");
        }
    }
}
