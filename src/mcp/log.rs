//! The log lines of a job as `notifications/message`.
//!
//! In: what an attempt logged, once it is durable. Out: the lines at or above a level.

use super::Endpoint;
use super::rpc;
use super::voice::Voice;
use crate::job::Head;
pub(super) use crate::service::Level;
use crate::service::LogLine;

/// Most bytes of log, the newest, that are sent with an answer; the rest is read by `get_job`.
pub const LOG_SENT_MAX: u64 = 64 * 1024;

/// Sends what the job's attempts logged at or above this level. What cannot be read is left out: the answer stands without it.
pub(super) async fn send(endpoint: &Endpoint, head: &Head, least: Level, voice: &mut Voice) {
    let (job, logger) = (head.job.id(), &head.job.spec.job_type);
    let mut room = LOG_SENT_MAX;
    let mut attempts = Vec::new();
    for log in head.job.logs.iter().rev() {
        if log.len > room {
            break;
        }
        room -= log.len;
        let Ok(lines) = endpoint.service.log_of(job, *log, 0).await else { break };
        attempts.push(lines);
    }
    let lines = attempts.into_iter().rev().flatten().map(|(line, _)| line);
    // The log of a job that has ended stays as it is: what was told before a stream broke off has the same numbers.
    let lines = lines.zip(1..).skip(voice.lines()).filter(|(line, _)| line.level >= least);
    for (LogLine { level, message, .. }, number) in lines {
        let mut json = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":".to_vec();
        rpc::push_value(&mut json, &level);
        json.extend_from_slice(b",\"logger\":");
        rpc::push_string(&mut json, logger);
        json.extend_from_slice(b",\"data\":");
        rpc::push_string(&mut json, &message);
        json.extend_from_slice(voice.mark().as_bytes());
        json.extend_from_slice(b"}}");
        voice.log(number, &json, endpoint.clock.now()).await;
    }
}
