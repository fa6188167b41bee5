//! `watch`: jobs to their ends, or the feed without one.
//!
//! In: ids. Out: their events, each once and in order, over every restart of the server.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde_json::Value;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::follow::{Event, Told, follow};
use super::output::{Bar, Output, Stream};
use crate::job::ending;

/// Most jobs that one command watches: each holds a connection.
pub const WATCH_MAX: usize = 64;
/// Events that wait to be printed before reading waits too.
const WAITING_MAX: usize = 64;

/// Watches jobs, or everything if none is named.
///
/// # Errors
/// `Usage` for too many; what `follow` says.
pub fn watch(client: &Client, output: &Output, ids: &[String]) -> Result<Ending, Failure> {
    let mut seen = std::collections::HashSet::new();
    let ids: Vec<String> = ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect();
    match &ids[..] {
        [] => feed(client, output),
        [id] => job(client, output, id, Stream::Out),
        ids if ids.len() > WATCH_MAX => Err(Failure::Usage(format!("at most {WATCH_MAX} jobs can be watched at once"))),
        ids => jobs(client, output, ids),
    }
}

/// Everything that happens, from now on.
fn feed(client: &Client, output: &Output) -> Result<Ending, Failure> {
    let mut trouble = None;
    follow(client, "/api/events", None, &mut |told| keep(&mut trouble, tell(output, told, None, Stream::Out)))?;
    trouble.map_or(Ok(Ending::Done), Err)
}

/// One job to its end; the ending says which.
///
/// # Errors
/// What `follow` says; `Refused` if it is gone without an end.
pub fn job(client: &Client, output: &Output, id: &str, stream: Stream) -> Result<Ending, Failure> {
    let bar = output.bar(id);
    let (mut trouble, mut ending) = (None, None);
    follow(client, &events_path(id)?, None, &mut |told| {
        ending = ending_of(&told).or(ending);
        let told = if output.json { told } else { explained(client, told) };
        let flow = keep(&mut trouble, tell(output, told, bar.as_ref(), stream));
        if ending.is_some() { ControlFlow::Break(()) } else { flow }
    })?;
    match (trouble, ending) {
        (Some(failure), _) => Err(failure),
        (None, Some(ending)) => Ok(ending),
        (None, None) => ended(client, id),
    }
}

/// Several jobs, a thread and a connection each; this thread prints.
fn jobs(client: &Client, output: &Output, ids: &[String]) -> Result<Ending, Failure> {
    let paths = ids.iter().map(|id| events_path(id)).collect::<Result<Vec<_>, _>>()?;
    let (sender, receiver) = sync_channel(WAITING_MAX);
    std::thread::scope(|scope| {
        for (at, path) in paths.iter().enumerate() {
            let sender = sender.clone();
            scope.spawn(move || one_of_many(client, path, at, &sender));
        }
        drop(sender);
        print_all(client, output, ids, receiver)
    })
}

/// What the thread of one job says to the one that prints.
enum News {
    Told(Told),
    Over(Result<(), Failure>),
}

fn one_of_many(client: &Client, path: &str, at: usize, sender: &SyncSender<(usize, News)>) {
    let over = follow(client, path, None, &mut |told| {
        let is_end = ending_of(&told).is_some();
        match sender.send((at, News::Told(told))) {
            Ok(()) if !is_end => ControlFlow::Continue(()),
            // Its end, or nobody prints any more.
            Ok(()) | Err(_) => ControlFlow::Break(()),
        }
    });
    let _ = sender.send((at, News::Over(over)));
}

fn print_all(
    client: &Client,
    output: &Output,
    ids: &[String],
    receiver: Receiver<(usize, News)>,
) -> Result<Ending, Failure> {
    let mut bars: Vec<Option<Bar>> = ids.iter().map(|id| output.bar(id)).collect();
    let mut endings: Vec<Option<Ending>> = vec![None; ids.len()];
    let mut away = 0;
    let mut refused = None;
    for (at, news) in receiver {
        match news {
            // All streams break off together: that is told once.
            News::Told(Told::Away) if away > 0 => away += 1,
            News::Told(Told::Back) if away > 1 => away -= 1,
            News::Told(told) => {
                match told {
                    Told::Away => away = 1,
                    Told::Back => away = 0,
                    Told::Event(_) | Told::Reset(_) => {}
                }
                endings[at] = ending_of(&told).or(endings[at]);
                let told = if output.json { told } else { explained(client, told) };
                tell(output, told, bars[at].as_ref(), Stream::Out)?;
            }
            News::Over(over) => {
                bars[at] = None;
                let ended = over.and_then(|()| endings[at].map_or_else(|| ended(client, &ids[at]), Ok));
                match ended {
                    Ok(ending) => endings[at] = Some(ending),
                    Err(failure) => {
                        output.note(&format!("{}: {failure}", ids[at]));
                        refused = Some(Failure::Refused("not every job could be watched to its end".to_owned()));
                    }
                }
            }
        }
    }
    let all = endings.into_iter().flatten().fold(Ending::Done, Ending::and);
    refused.map_or(Ok(all), Err)
}

/// How a job ended whose stream has nothing more to say.
fn ended(client: &Client, id: &str) -> Result<Ending, Failure> {
    let job = client.get(&format!("/api/jobs/{id}"), &[])?.json()?;
    let ending = job["status"].as_str().and_then(Ending::of_status);
    ending.ok_or_else(|| Failure::Refused(format!("job {id} goes on, but its stream has ended")))
}

/// The same, with the whole error of an attempt that its program ended without a word: events do not quote stderr, the job does to its owner.
fn explained(client: &Client, told: Told) -> Told {
    let Told::Event(mut event) = told else { return told };
    if let Some(whole) = whole_error(client, &event) {
        event.payload["error"] = whole;
    }
    Told::Event(event)
}

fn whole_error(client: &Client, event: &Event) -> Option<Value> {
    let attempt = match event.event_type.as_str() {
        "job.failed" => &event.payload["attempts"],
        "job.progress" => &event.payload["retry"],
        _ => return None,
    };
    let ended = event.payload["error"].as_str().filter(|text| ending(text).is_some())?;
    // What cannot be had is no reason to stop: the event says enough.
    let mut job =
        client.get(&format!("/api/jobs/{}", super::jobs::check_id(&event.job_id).ok()?), &[]).ok()?.json().ok()?;
    let error = job["error"]["message"].take();
    let is_of_it = job["error"]["attempt"] == *attempt && error.as_str().is_some_and(|text| text.starts_with(ended));
    is_of_it.then_some(error)
}

fn ending_of(told: &Told) -> Option<Ending> {
    match told {
        Told::Event(event) => event.ending(),
        Told::Reset(_) | Told::Away | Told::Back => None,
    }
}

fn tell(output: &Output, told: Told, bar: Option<&Bar>, stream: Stream) -> Result<(), Failure> {
    match told {
        Told::Event(event) => output.event(&event, bar, stream)?,
        Told::Reset(why) => output.note(&why),
        Told::Away => output.note("the server is away; reconnecting"),
        Told::Back => output.note("it is back"),
    }
    Ok(())
}

/// Keeps a failure to print, and stops for it.
fn keep(trouble: &mut Option<Failure>, told: Result<(), Failure>) -> ControlFlow<()> {
    match told {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            *trouble = Some(failure);
            ControlFlow::Break(())
        }
    }
}

/// The path of a job's stream.
fn events_path(id: &str) -> Result<String, Failure> {
    super::jobs::check_id(id).map(|id| format!("/api/jobs/{id}/events"))
}
